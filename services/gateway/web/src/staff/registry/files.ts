// Prompts in their order, and the file of a new version. Pure: tested under Node.
import type { PromptFile } from "../../contract/types";

// Stage and variant in a language: what has versions.
export const lineOf = ({ stage, name, language }: PromptFile): string => [stage, name, language].filter(Boolean).join(".");

export function groupByLine(prompts: PromptFile[]): Map<string, PromptFile[]> {
  const lines = new Map<string, PromptFile[]>();
  for (const prompt of prompts) lines.set(lineOf(prompt), [...(lines.get(lineOf(prompt)) ?? []), prompt]);
  return lines;
}

// The name and the content of the version after all that are known, with a text of its own.
export function makeFile(from: PromptFile, versions: PromptFile[], body: string): { name: string; content: string } {
  const version = Math.max(...versions.map((one) => one.version)) + 1;
  const header = [
    `stage: ${from.stage}`, ...(from.name ? [`name: ${from.name}`] : []), `version: ${version}`, `language: ${from.language}`, `output: ${from.output}`,
    ...(from.few_shot ? ["few_shot: true"] : []), ...(from.output_schema ? [`schema: ${from.output_schema}`] : []),
  ];
  const name = [from.stage, from.name, `v${version}`, from.language, "md"].filter(Boolean).join(".");
  return { name, content: `---\n${header.join("\n")}\n---\n${body.trimEnd()}\n` };
}
