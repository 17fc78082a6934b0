// An answer as a file: written by the server, which has the whole tables; only the pictures of figures come from here.
import { asProblem, path } from "../base/api";
import { type Child, el } from "../base/dom";
import { picturesOf } from "../answer/pictures";
import { language, word } from "../base/words";
import type { Run } from "../run/run";

const addressOf = (run: string, format: string, more: Record<string, string> = {}): string =>
  `${path("runs", run, "export")}?${new URLSearchParams({ format, language: language(), ...more })}`;

async function fetched(address: string, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(address, options);
  if (!response.ok) throw new Error(((await response.json().catch(() => ({}))) as { detail?: string }).detail ?? `HTTP ${response.status}`);
  return response;
}

export const markdownOf = async (run: string): Promise<string> => (await fetched(addressOf(run, "md"))).text();

async function saveWord(run: string, answer: HTMLElement): Promise<void> {
  const body = JSON.stringify({ format: "docx", language: language(), pictures: await picturesOf(answer) });
  const headers = { "content-type": "application/json" };
  const response = await fetched(path("runs", run, "export"), { method: "POST", headers, body });
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "report.docx";
  const href = URL.createObjectURL(await response.blob());
  el("a", { href, download: decodeURIComponent(name) }).click();
  // Later: the browser reads the address when it begins to save.
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

export function exportMenu(run: Run, answer: HTMLElement, onProblem: (text: string) => void): HTMLElement {
  const link = (name: string, href: string, more: Record<string, unknown>): Child =>
    el("li", {}, el("a", { href, ...more, onclick: () => close() }, word(name)));
  const docx = el("button", { type: "button", class: "quiet", onclick: () => {
    docx.disabled = true;
    saveWord(run.id, answer).catch((thrown: unknown) => onProblem(asProblem(thrown).message)).finally(() => {
      docx.disabled = false;
      close();
    });
  } }, word("export_docx"));
  const summary = el("summary", {}, word("export"));
  const menu = el("details", { class: "menu" }, summary, el("ul", {},
    el("li", {}, docx),
    link("export_print", addressOf(run.id, "html", { print: "true" }), { target: "_blank", rel: "noreferrer" }),
    link("export_html", addressOf(run.id, "html"), { download: "" }),
    link("export_md", addressOf(run.id, "md"), { download: "" }),
    link("export_json", path("runs", run.id), { download: `${run.id}.json` })));
  const close = (): void => { menu.open = false; };
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation(); // on the page Escape stops the run
    close();
    summary.focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget as Node)) close();
  });
  return menu;
}
