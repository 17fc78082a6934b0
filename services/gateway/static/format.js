// Numbers, times and durations as a terminal user reads them.
import { language } from "/static/words.js";

// A formatter for one column: as many decimals as its magnitude needs, none for whole numbers.
export function columnFormat(name, values) {
  const numbers = values.filter((value) => typeof value === "number");
  const whole = numbers.every(Number.isInteger);
  const largest = Math.max(0, ...numbers.map(Math.abs));
  const digits = whole ? 0 : largest >= 10 ? 2 : 4;
  const format = new Intl.NumberFormat(language(), {
    minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: !/year|年/i.test(name),
  });
  return (value) => {
    if (value === null || value === undefined) return "–";
    return typeof value === "number" ? format.format(value) : String(value);
  };
}

export const count = (value) => new Intl.NumberFormat(language()).format(Number(value));

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const day = (time) => (time ? new Date(time).toLocaleDateString(language(), { dateStyle: "medium", timeZone: "UTC" }) : "");

// Sources and last date of a sheet, from its columns.
export function provenance(sheet) {
  const columns = sheet.columns ?? [];
  const sources = [...new Set(columns.map((column) => column.source).filter(Boolean))];
  const dates = columns.map((column) => column.as_of).filter(Boolean).sort();
  return { sources: sources.join(", "), asOf: dates.at(-1) ?? "" };
}
