// Numbers, times and durations as a terminal user reads them.
import type { Material, Sheet } from "../contract/types";
import { language, word } from "./words";

const chosen = { decimals: "" };
// Whether a comma or a point stands before decimals; "" leaves it to the page's language.
export const setDecimals = (mark: string): void => { chosen.decimals = mark; };
const NUMBERS: Record<string, string> = { comma: "de", point: "en" };
const numbersOf = (): string => NUMBERS[chosen.decimals] ?? language();

const decimals = (value: number): number => /\.(\d+)$/.exec(String(value))?.[1].length ?? 0;

// A formatter for one column: as many decimals as its values have, at most four, or two from 10 on.
export function columnFormat(name: string, values: unknown[]): (value: unknown) => string {
  const numbers = values.filter((value): value is number => typeof value === "number");
  const largest = Math.max(0, ...numbers.map(Math.abs));
  const digits = Math.min(largest >= 10 ? 2 : 4, Math.max(0, ...numbers.map(decimals)));
  const format = new Intl.NumberFormat(numbersOf(), {
    minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: !/year|年/i.test(name),
  });
  return (value) => {
    if (value === null || value === undefined) return "–";
    return typeof value === "number" ? format.format(value) : String(value);
  };
}

export const count = (value: number | string): string => new Intl.NumberFormat(numbersOf()).format(Number(value));

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
}

const DAY: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeZone: "UTC" };
export const day = (time: string | undefined): string => (time ? new Date(time).toLocaleDateString(language(), DAY) : "");

// Such as the gateway tells of things of its own, in the time zone of the reader.
export const dayOfSecond = (seconds: number): string => new Date(seconds * 1000).toLocaleDateString(language(), { dateStyle: "medium" });

// Such as "15:42"; with its day if that is not today.
export function timeOf(moment: Date): string {
  const isToday = moment.toDateString() === new Date().toDateString();
  const time: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return moment.toLocaleString(language(), isToday ? time : { month: "short", day: "numeric", ...time });
}

// In a time zone of the page's things, by default the reader's.
export const minuteOfSecond = (seconds: number, timeZone?: string): string =>
  new Date(seconds * 1000).toLocaleString(language(), { dateStyle: "medium", timeStyle: "short", timeZone });

// The cell that computed a sheet and the sheets it read; "" for a fetched one.
export function computation(item: Material): string {
  if (!item.computed_by) return "";
  const from = (item.computed_from ?? []).join(", ");
  return `${word("computedBy")} [${item.computed_by}]${from ? ` ← ${from}` : ""}`;
}

// Sources and last date of a sheet, from its columns.
export function provenance(sheet: Sheet): { sources: string; asOf: string } {
  const columns = sheet.columns ?? [];
  const sources = [...new Set(columns.map((column) => column.source).filter(Boolean))];
  const dates = columns.map((column) => column.as_of).filter(Boolean).sort();
  return { sources: sources.join(", "), asOf: dates.at(-1) ?? "" };
}
