// What the page reads from the gateway and keeps: names of the entries, and when a failed reading is tried again.
import { QueryClient } from "@tanstack/react-query";

import { asProblem, call, path } from "./api";
import { pause } from "./reach";
import type { Conversations, EntityList, Facts, Frameworks, JudgementList, Limits, Models, Rights, RunRecord, SourceList } from "../contract/types";

const LONGEST_PAUSE_MS = 15_000;
const TRIES = 3;
const CONVERSATIONS_PAGE = 100;

export const pauseAfter = (tries: number): number => Math.min(LONGEST_PAUSE_MS, 1_000 * 2 ** tries);

// A refusal is final; a gateway or planner that is away is not.
export const isPassing = (thrown: unknown): boolean => {
  const { status } = asProblem(thrown);
  return status === 0 || status >= 500;
};

export const makeQueryClient = (): QueryClient => new QueryClient({
  defaultOptions: {
    queries: {
      retry: (tries, thrown) => tries < TRIES && isPassing(thrown), retryDelay: pauseAfter,
      refetchOnWindowFocus: false, staleTime: 5_000,
      // A gateway on this machine is reached without any network.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

// Calls until it is answered or refused, or until nobody wants the answer any more.
export async function insist<T>(ask: () => Promise<T>, isWanted: () => boolean, onFailure: (thrown: unknown) => void): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await ask();
    } catch (thrown) {
      if (!isWanted() || !isPassing(thrown)) throw thrown;
      onFailure(thrown);
      await pause(pauseAfter(tries));
      if (!isWanted()) throw thrown;
    }
  }
}

export const KEYS = {
  sources: ["sources"], limits: ["limits"],
  models: ["models"], rights: ["rights"], facts: ["facts"], stances: ["stances"], links: ["links"], schedules: ["schedules"], changes: (run: string) => ["changes", run], frameworks: ["frameworks"], entities: (query: string) => ["entities", query], conversations: ["conversations"], rows: (sheet: string) => ["rows", sheet], meaning: (sheet: string) => ["meaning", sheet], sheets: (conversation: string) => ["sheets", conversation],
  run: (id: string) => ["run", id], judgements: (conversation: string) => ["judgements", conversation],
};

export const readJudgements = (conversation: string): Promise<JudgementList> => call<JudgementList>(path("conversations", conversation, "feedback"));
export const readModels = (): Promise<Models> => call<Models>(path("models"));
export const readLimits = (): Promise<Limits> => call<Limits>(path("limits"));
export const readSources = (): Promise<SourceList> => call<SourceList>(path("sources"));
export const readRights = (): Promise<Rights> => call<Rights>(path("review", "rights"));
export const readFacts = (): Promise<Facts> => call<Facts>(`${path("facts")}?page_size=200`);
export const readFrameworks = (): Promise<Frameworks> => call<Frameworks>(`${path("frameworks")}?level=1`);
export const readFrameworkTrees = (): Promise<Frameworks> => call<Frameworks>(path("frameworks"));
export const readEntities = (query: string): Promise<EntityList> => call<EntityList>(`${path("entities")}?${new URLSearchParams({ query })}`);
export const readRun = (id: string): Promise<RunRecord> => call<RunRecord>(path("runs", id));

export function readConversations(query: string, token: string): Promise<Conversations> {
  const parts = new URLSearchParams({ page_size: String(CONVERSATIONS_PAGE), page_token: token, query });
  return call<Conversations>(`${path("conversations")}?${parts}`);
}
