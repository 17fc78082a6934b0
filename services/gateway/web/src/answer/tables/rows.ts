// The rows in sight of a view of a sheet: fetched in chunks, and let go of some time after they have left it.
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { KEYS } from "../../base/queries";
import type { TablePage } from "../../contract/types";
import { CHUNK, type Values, type View, readRows } from "./sheet";

const HELD_MS = 60_000;

const chunkOf = (sheet: string, view: View, chunk: number) => ({
  queryKey: [...KEYS.rows(sheet), view, chunk], queryFn: () => readRows(sheet, view, chunk * CHUNK, CHUNK),
  staleTime: Infinity, gcTime: HELD_MS,
});

export interface Rows {
  // The view whose rows these are: the one before stays until the next one has come.
  view: View;
  columns: TablePage["columns"];
  total: number;
  isLoaded: boolean;
  isBusy: boolean;
  problem: unknown;
  // A row of the view, or undefined until it is here.
  at: (index: number) => Values | undefined;
  // All values of a column that are here, for its format.
  column: (index: number) => unknown[];
}

// `first` and `last` are the rows in sight.
export function useRows(sheet: string, wanted: View, first: number, last: number): Rows {
  const start = useQuery({ ...chunkOf(sheet, wanted, 0), placeholderData: keepPreviousData });
  const [view, setView] = useState(wanted);
  const hasCome = Boolean(start.data) && !start.isPlaceholderData;
  if (hasCome && view !== wanted) setView(wanted);
  const chunks = new Map<number, Values[]>();
  if (start.data) chunks.set(0, start.data.rows as Values[]);
  const numbers: number[] = [];
  for (let chunk = Math.floor(first / CHUNK); start.data && chunk <= Math.floor(last / CHUNK); chunk += 1) if (chunk) numbers.push(chunk);
  const further = useQueries({ queries: numbers.map((chunk) => chunkOf(sheet, view, chunk)) });
  further.forEach(({ data }, place) => { if (data) chunks.set(numbers[place]!, data.rows as Values[]); });
  return {
    view, columns: start.data?.columns ?? [], total: start.data?.total ?? 0, isLoaded: Boolean(start.data), isBusy: start.isFetching,
    problem: start.error ?? further.find(({ error }) => error)?.error ?? null,
    at: (index) => chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK],
    column: (index) => [...chunks.values()].flatMap((rows) => rows.map((row) => row[index])),
  };
}
