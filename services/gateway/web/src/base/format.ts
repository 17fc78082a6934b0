// Numbers, times and durations as a terminal user reads them.
import type { Material, Sheet } from "../contract/types";
import { enclosed } from "./negatives";
import { counted, language, plural, word } from "./words";

const chosen = { decimals: "" };
// Whether a comma or a point stands before decimals; "" leaves it to the page's language.
export const setDecimals = (mark: string): void => { chosen.decimals = mark; };
const NUMBERS: Record<string, string> = { comma: "de", point: "en" };
const numbersOf = (): string => NUMBERS[chosen.decimals] ?? language();

const decimals = (value: number): number => /\.(\d+)$/.exec(String(value))?.[1].length ?? 0;

// How the numbers of a table are shown: in what, and with how many decimals ("" for as many as the values have).
export const SCALES = { given: 1, thousand: 1e3, wan: 1e4, million: 1e6, yi: 1e8, billion: 1e9 } as const;
export type Scale = keyof typeof SCALES;
export const DECIMALS = ["", "0", "1", "2", "3", "4"] as const;
export interface NumberForm {
  scale: Scale;
  decimals: (typeof DECIMALS)[number];
}
export const AS_GIVEN: NumberForm = { scale: "given", decimals: "" };

export const isYear = (name: string): boolean => /year|年/i.test(name);

// A formatter for one column: as many decimals as its values have, at most four, or two from 10 on.
export function columnFormat(name: string, values: unknown[], form = AS_GIVEN): (value: unknown) => string {
  const divisor = isYear(name) ? 1 : SCALES[form.scale];
  const numbers = values.filter((value): value is number => typeof value === "number").map((value) => value / divisor);
  const largest = Math.max(0, ...numbers.map(Math.abs));
  const given = Math.min(largest >= 10 ? 2 : 4, Math.max(0, ...numbers.map(decimals)));
  const digits = form.decimals && !isYear(name) ? Number(form.decimals) : given;
  const format = new Intl.NumberFormat(numbersOf(), {
    minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: !isYear(name),
  });
  return (value) => {
    if (value === null || value === undefined) return "–";
    return typeof value === "number" ? enclosed(format.format(value / divisor)) : String(value);
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

// Such as "1,511 rows × 3 columns".
export const sizeOf = ({ rows, columns }: Sheet): string =>
  `${count(rows)} ${plural("rows", Number(rows))} × ${counted(columns.length, "columns")}`;

// Sources and last date of a sheet, from its columns.
export function provenance(sheet: Sheet): { sources: string; asOf: string } {
  const columns = sheet.columns ?? [];
  const sources = [...new Set(columns.map((column) => column.source).filter(Boolean))];
  const dates = columns.map((column) => column.as_of).filter(Boolean).sort();
  return { sources: sources.join(", "), asOf: dates.at(-1) ?? "" };
}
