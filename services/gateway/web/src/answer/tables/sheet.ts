// Rows of a whole sheet, which the server filters and sorts.
import { call, path } from "../../base/api";
import type { Sheet, TablePage } from "../../contract/types";
import { type Cell, cellsIn, distinctCells } from "../../run/evidence";

export const CHUNK = 200;
const MAX_PAGE = 1000;
// A citation's cells are looked for in as many pages.
const MAX_PAGES = 4;

export interface View {
  sort: string;
  desc: boolean;
  filter: string;
}

export type Values = unknown[];

export const WHOLE: View = { sort: "", desc: false, filter: "" };

export function readRows(sheet: string, { sort, desc, filter }: View, offset: number, limit: number): Promise<TablePage> {
  const query = new URLSearchParams({ offset: String(offset), limit: String(limit), sort, desc: String(desc), filter });
  return call<TablePage>(`${path("tables", sheet)}?${query}`);
}

// The rows of a view, at most `most` of them, as they are and not as they are shown.
export async function readAll(sheet: string, view: View, total: number, most: number): Promise<Values[]> {
  const rows: Values[] = [];
  while (rows.length < Math.min(most, total)) {
    const page = await readRows(sheet, view, rows.length, Math.min(MAX_PAGE, most - rows.length));
    if (!page.rows.length) break;
    rows.push(...(page.rows as Values[]));
  }
  return rows;
}

// The cells that hold the numbers of a sentence.
export async function findCells(sheet: Sheet, sentence: string): Promise<Cell[]> {
  const pages: (Cell | null)[][] = [];
  for (let index = 0; index < MAX_PAGES && index * MAX_PAGE < Number(sheet.rows); index += 1) {
    pages.push(cellsIn(await readRows(sheet.id, WHOLE, index * MAX_PAGE, MAX_PAGE), sentence));
    if (pages[0]!.every((_, place) => pages.some((page) => page[place]))) break;
  }
  return distinctCells(pages);
}

export const isNumeric = (type: string): boolean => /int|float|double|decimal/.test(type);
