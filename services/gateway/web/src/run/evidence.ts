// Which parts of a material a sentence rests on: printed lines, sentences of a passage, cells. Pure: tested under node.

import type { TablePage } from "../contract/types";

interface Said {
  value: number;
  slack: number;
  decimals: number;
}

// A card has room for so many parts.
const MOST_PARTS = 6;
// A number says as much as so many words; a further line must say so much of what is left, since one word is chance.
const NUMBER_WEIGHT = 3;

export interface Cell {
  day: string;
  column: string;
  value: number;
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

// Small whole numbers stand in any text.
const tellingNumbers = (sentence: string): Said[] => numbersOf(sentence).filter((number) => number.decimals || Math.abs(number.value) > 12);

// The places of the lines that together say what a sentence says, in the order of the text: the line that says most of
// it, then those that say most of what is left. None when no line says any of it.
function placesBehind(lines: string[], sentence: string): number[] {
  const words = wordsOf(sentence);
  const numbers = new Set(tellingNumbers(sentence));
  const held = lines.map((line) => ({ words: wordsOf(line), numbers: numbersOf(line) }));
  const chosen: number[] = [];
  while (chosen.length < MOST_PARTS) {
    const said = held.map((line) => ({
      words: [...words].filter((word) => line.words.has(word)),
      numbers: [...numbers].filter((number) => line.numbers.some(({ value }) => same(number, value))),
    }));
    const scores = said.map((line) => line.words.length + NUMBER_WEIGHT * line.numbers.length);
    const most = Math.max(0, ...scores);
    if (most < (chosen.length ? NUMBER_WEIGHT : 1)) break;
    const best = scores.indexOf(most);
    chosen.push(best);
    for (const word of said[best]!.words) words.delete(word);
    for (const number of said[best]!.numbers) numbers.delete(number);
  }
  return chosen.sort((a, b) => a - b);
}

export const linesBehind = (lines: string[], sentence: string): string[] => placesBehind(lines, sentence).map((place) => lines[place]!.trim());

// The parts of a text that a sentence rests on, each with the sentence behind it, which may limit it.
export function partsBehind(text: string, sentence: string): string[] {
  const lines = sentencesOf(text).map((line) => line.trim());
  const shown = new Set(placesBehind(lines, sentence).flatMap((place) => [place, place + 1]));
  const parts: string[][] = [];
  lines.forEach((line, place) => {
    if (!shown.has(place)) return;
    if (shown.has(place - 1)) parts.at(-1)!.push(line);
    else parts.push([line]);
  });
  return parts.map((part) => part.join(" "));
}

export const sentencesOf = (text: string): string[] => text.split(/(?<=[.!?])\s+|(?<=[。！？；])|\n+/).filter((line) => line.trim());

// For each number of a sentence the cell of a page that holds it, or null; where the sentence names dates, of their rows.
export function cellsIn(page: Pick<TablePage, "columns" | "rows">, sentence: string): (Cell | null)[] {
  const numbers = tellingNumbers(sentence);
  const dates = datesOf(sentence);
  const found: (Cell | null)[] = numbers.map(() => null);
  for (const row of page.rows) {
    const day = row.find((value): value is string => typeof value === "string" && /^\d{4}-\d\d-\d\d/.test(value)) ?? "";
    if (dates.length && !dates.some((date) => day.startsWith(date))) continue;
    row.forEach((value: unknown, column) => {
      if (typeof value !== "number") return;
      numbers.forEach((number, place) => {
        if (same(number, value)) found[place] ??= { day: day.slice(0, 10), column: page.columns[column].name, value };
      });
    });
  }
  return found;
}

// The cells behind a sentence from what each page of a table has of them, each once.
export function distinctCells(pages: (Cell | null)[][]): Cell[] {
  const found = (pages[0] ?? []).map((_, place) => pages.find((page) => page[place])?.[place]).filter((cell) => cell != null);
  return [...new Map(found.map((cell) => [`${cell.day} ${cell.column}`, cell])).values()].slice(0, MOST_PARTS);
}
