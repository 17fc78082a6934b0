// Which pages of the runs are read again, and what becomes of the list. Pure: tested under Node.
import type { RunPage } from "../../contract/types";
import { stateOf } from "./summary";

// The first page has what is new; another one changes only while one of its runs goes on.
export const pagesToRead = (pages: RunPage[]): number[] =>
  pages.flatMap((page, place) => (!place || page.runs.some((run) => stateOf(run) === "running") ? [place] : []));

// A page as it is now, and behind it what newer runs have pushed off its end: the next page begins where it did.
export function merge(page: RunPage, fresh: RunPage): RunPage {
  const known = new Set(fresh.runs.map((run) => run.run_id));
  return { ...page, runs: [...fresh.runs, ...page.runs.filter((run) => !known.has(run.run_id))] };
}
