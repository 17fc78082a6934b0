// Which part of a material a sentence rests on: the printed line, the passage's sentence, the cell. Pure: tested under
// node.

import type { TablePage } from "../contract/types";

interface Said {
  value: number;
  slack: number;
  decimals: number;
}

export interface Cell {
  day: string;
  column: string;
  value: number;
  dated: boolean;
}

const NUMBER = /[-−]?\d[\d,]*(?:\.\d+)?/g;

// The numbers of a text with half of their last digit, without those of list marks and dates.
export function numbersOf(text: string): Said[] {
  const plain = text.replace(/\d{4}-\d\d-\d\d|\d{4}年|\d{1,2}[月日]/g, " ");
  return [...plain.matchAll(NUMBER)].map(([said]) => {
    const digits = said.replace("−", "-").replaceAll(",", "");
    const decimals = digits.split(".")[1]?.length ?? 0;
    return { value: Number(digits), slack: 0.5 * 10 ** -decimals, decimals };
  });
}

const same = (number: Said, value: number): boolean => [value, -value, value * 100].some(
  (held) => Math.abs(held - number.value) <= number.slack * (1 + 1e-9),
);

const datesOf = (text: string): string[] => [...text.matchAll(/\d{4}-\d\d(?:-\d\d)?/g)].map(([found]) => found);

const wordsOf = (text: string): Set<string> => new Set<string>(text.toLowerCase().match(/[a-z]{4,}|\d[\d.,]*\d|[\u4e00-\u9fff]{2}/g) ?? []);

// The line of a text that says most of what a sentence says, or "" when none says any of it.
export function closest(lines: string[], sentence: string): string {
  const wanted = wordsOf(sentence);
  const numbers = numbersOf(sentence).filter((number) => number.decimals || Math.abs(number.value) > 12);
  let best: [string, number] = ["", 0];
  for (const line of lines) {
    const words = wordsOf(line);
    const held = numbersOf(line);
    const score = [...wanted].filter((word) => words.has(word)).length +
      3 * numbers.filter((number) => held.some(({ value }) => same(number, value))).length;
    if (score > best[1]) best = [line.trim(), score];
  }
  return best[0];
}

// The sentence of a text that says most of what another one says, with the sentence behind it, which may limit it.
export function passageOf(text: string, sentence: string): string {
  const lines = sentencesOf(text);
  const at = lines.findIndex((line) => line.trim() === closest(lines, sentence));
  return at < 0 ? "" : lines.slice(at, at + 2).map((line) => line.trim()).join(" ");
}

export const sentencesOf = (text: string): string[] => text.split(/(?<=[.!?])\s+|(?<=[。！？；])|\n+/).filter((line) => line.trim());

// The row and column of a page that hold a number of the sentence; a row of a date that it names goes first.
export function cellIn(page: Pick<TablePage, "columns" | "rows">, sentence: string): Cell | null {
  const numbers = numbersOf(sentence).filter((number) => number.decimals || Math.abs(number.value) > 12);
  const dates = datesOf(sentence);
  const found: Cell[] = [];
  for (const row of page.rows) {
    const day = row.find((value): value is string => typeof value === "string" && /^\d{4}-\d\d-\d\d/.test(value)) ?? "";
    const dated = dates.some((date) => day.startsWith(date));
    row.forEach((value: unknown, column) => {
      if (typeof value !== "number" || !numbers.some((number) => same(number, value))) return;
      found.push({ day: day.slice(0, 10), column: page.columns[column].name, value, dated });
    });
  }
  return found.find((cell) => cell.dated) ?? (dates.length ? null : found[0] ?? null);
}
