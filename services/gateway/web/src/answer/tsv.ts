// A table as spreadsheets take it from the clipboard. Pure: tested under Node.

// A tab or a line end in a cell would be another cell. A text that a spreadsheet would run as a formula stays a text.
function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = String(value).replace(/[\t\r\n]+/g, " ");
  return /^[=+\-@]/.test(text) ? `'${text}` : text;
}

export function asTsv(header: string[], rows: unknown[][], notes: string[]): string {
  const lines = [header, ...rows].map((row) => row.map(cell).join("\t"));
  return [...lines, ...(notes.length ? ["", ...notes.map(cell)] : [])].join("\n");
}
