// How the reader wants the numbers of each table: kept with the browser for the tables that he has set last.
import { useRef } from "react";

import { AS_GIVEN, DECIMALS, type NumberForm, SCALES, type Scale, isYear } from "../../base/format";
import { Store } from "../../base/store";
import { remember, remembered } from "../../base/words";
import type { Rows } from "./rows";

const KEY = "numbers";
const MOST = 50;

export class NumberForms extends Store {
  readonly #forms = readForms();

  of(sheet: string): NumberForm { return this.#forms.get(sheet) ?? AS_GIVEN; }

  choose(sheet: string, form: NumberForm): void {
    // Last in, last out.
    this.#forms.delete(sheet);
    this.#forms.set(sheet, form);
    for (const oldest of [...this.#forms.keys()].slice(0, -MOST)) this.#forms.delete(oldest);
    remember(KEY, JSON.stringify([...this.#forms]));
    this.changed();
  }
}

// What another version has kept, or somebody by hand, counts where it is understood.
function readForms(): Map<string, NumberForm> {
  try {
    const kept = JSON.parse(remembered(KEY) ?? "[]") as [string, NumberForm][];
    return new Map(kept.filter(([, form]) => form.scale in SCALES && DECIMALS.includes(form.decimals)));
  } catch {
    return new Map();
  }
}

// The largest value of each column that has been read: a column that is shown in thousands stays so while one scrolls.
export function useLargest(rows: Rows): number[] {
  const largest = useRef<number[]>([]);
  rows.columns.forEach((_, place) => {
    for (const value of rows.column(place)) if (typeof value === "number") largest.current[place] = Math.max(largest.current[place] ?? 0, Math.abs(value));
  });
  return largest.current;
}

// A column whose values would all be fractions, such as one of percentages, stays as it is given.
export const scaleOf = (name: string, largest: number | undefined, scale: Scale): Scale =>
  (!isYear(name) && (largest ?? 0) >= SCALES[scale] ? scale : "given");
