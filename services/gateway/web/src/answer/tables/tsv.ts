// A table as spreadsheets take it, from the clipboard and as a file. Pure: tested under Node.

import { enclosed } from "../../base/negatives";

// A text that a spreadsheet would run as a formula stays a text.
function plain(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return enclosed(String(value));
  const text = String(value);
  return /^[=+\-@]/.test(text) ? `'${text}` : text;
}

// A tab or a line end in a cell would be another cell.
const tabbed = (value: unknown): string => plain(typeof value === "string" ? value.replace(/[\t\r\n]+/g, " ") : value);

function quoted(value: unknown): string {
  const text = plain(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Numbers are there as they are written; a text that a spreadsheet would run stays a text.
export const cellsAsTsv = (rows: string[][]): string =>
  rows.map((cells) => cells.map((cell) => tabbed(cell.trim() !== "" && Number.isFinite(Number(cell)) ? Number(cell) : cell)).join("\t")).join("\n");

export function asTsv(header: string[], rows: unknown[][], notes: string[]): string {
  const lines = [header, ...rows].map((row) => row.map(tabbed).join("\t"));
  return [...lines, ...(notes.length ? ["", ...notes.map(tabbed)] : [])].join("\n");
}

// With the mark by which spreadsheets know UTF-8.
export function asCsv(header: string[], rows: unknown[][], notes: string[]): string {
  const lines = [header, ...rows, ...(notes.length ? [[], ...notes.filter(Boolean).map((note) => [note])] : [])];
  return `\uFEFF${lines.map((line) => line.map(quoted).join(",")).join("\r\n")}\r\n`;
}
