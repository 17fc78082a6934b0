// The turns of a conversation, read from the gateway.
import type { QueryClient } from "@tanstack/react-query";

import { Problem, call, path } from "../base/api";
import { KEYS, insist, readRun } from "../base/queries";
import type { Turns } from "../contract/types";
import type { Turn } from "../turn/turn";
import type { KnownTurn } from "./threads";

// What is read again when a turn has ended: it, and what may have been asked elsewhere meanwhile.
const NEWEST = 20;

// A conversation is not there before its first run has ended.
export function passOverAbsence(thrown: unknown): null {
  if (!(thrown instanceof Problem) || thrown.status !== 404) throw thrown;
  return null;
}

// Each page of turns says how the conversation shows its tables.
function takePage(queries: QueryClient, id: string, found: Turns): KnownTurn[] {
  queries.setQueryData(KEYS.sheets(id), found.sheets);
  return found.turns;
}

// All turns of a conversation, page by page.
export async function readTurns(queries: QueryClient, id: string): Promise<KnownTurn[]> {
  const turns: KnownTurn[] = [];
  let next = "";
  do {
    const found: Turns = await call(`${path("conversations", id)}?${new URLSearchParams({ page_token: next })}`);
    turns.push(...takePage(queries, id, found));
    next = found.next_page_token;
  } while (next);
  return turns;
}

export async function readNewestTurns(queries: QueryClient, id: string): Promise<KnownTurn[]> {
  const parts = new URLSearchParams({ order: "newest", page_size: String(NEWEST) });
  const found = await call<Turns>(`${path("conversations", id)}?${parts}`).catch(passOverAbsence);
  return found ? takePage(queries, id, found) : [];
}

// Fills a turn from its run's record; without the record, with the answer as memory has it.
export async function recallTurn(view: Turn, answer: string, isWanted: () => boolean): Promise<void> {
  try {
    const record = await insist(() => readRun(view.run.id), isWanted, () => {});
    if (!isWanted()) return;
    if (record.running) view.follow();
    else view.load(record);
  } catch {
    if (isWanted()) view.quote(answer);
  }
}
