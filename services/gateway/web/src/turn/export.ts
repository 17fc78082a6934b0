// An answer as a file: written by the server, which has the whole tables; only the pictures of figures come from here.
import { Problem, path } from "../base/api";
import { saveBlob } from "../base/files";
import { negativesOf } from "../base/negatives";
import { language } from "../base/words";
import { picturesOf } from "../answer/figures/pictures";

// Formats in which a figure is a picture, which only a browser can draw.
export const PICTURED = ["pdf", "docx", "pptx", "ipynb"] as const;
export type Pictured = (typeof PICTURED)[number];
export const PLAIN = ["py", "xlsx", "html", "md", "json"] as const;
export const FORMATS = [...PICTURED, ...PLAIN] as const;
export type Format = (typeof FORMATS)[number];

export const addressOf = (run: string, format: string, more: Record<string, string> = {}): string =>
  `${path("runs", run, "export")}?${new URLSearchParams({ format, language: language(), ...negativesOf(), ...more })}`;

async function ask(address: string, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(address, options);
  if (!response.ok) throw new Problem({ ...((await response.json().catch(() => ({}))) as object), status: response.status });
  return response;
}

export const markdownOf = async (run: string): Promise<string> => (await ask(addressOf(run, "md"))).text();

async function askPictured(run: string, format: Pictured): Promise<Response> {
  const answer = document.querySelector(`[data-run="${CSS.escape(run)}"] .answer`);
  const body = JSON.stringify({ format, language: language(), ...negativesOf(), pictures: answer ? await picturesOf(answer) : {} });
  return ask(path("runs", run, "export"), { method: "POST", headers: { "content-type": "application/json" }, body });
}

const isPictured = (format: Format): format is Pictured => (PICTURED as readonly Format[]).includes(format);

export async function saveAnswer(run: string, format: Format): Promise<void> {
  const response = await (isPictured(format) ? askPictured(run, format) : ask(addressOf(run, format)));
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? `report.${format}`;
  saveBlob(await response.blob(), decodeURIComponent(name));
}
