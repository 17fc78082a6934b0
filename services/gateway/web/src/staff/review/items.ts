// Items of the review and what is asked of the gateway for them.
import { call, path, post } from "../../base/api";
import type { DecisionPage, ReviewDecision, ReviewItem, ReviewQueues, ReviewText } from "../../contract/types";

export const KINDS = ["comparison", "rewriting", "hallucination", "candidate", "recheck"] as const;
export type Kind = (typeof KINDS)[number];
// A against B, best first: the keys 1 to 5 choose in this order.
export const GRADES = [2, 1, 0, -1, -2] as const;
export type Grade = (typeof GRADES)[number];
export type Verdict = ReviewDecision["decision"];

export interface Said { decision: Verdict; grade?: Grade; reason: string; text?: string }

export const isKind = (name: string): name is Kind => (KINDS as readonly string[]).includes(name);
export const isGraded = (kind: Kind): boolean => kind === "comparison" || kind === "recheck";

export const QUEUES_KEY = ["review", "queues"];
export const readQueues = (): Promise<ReviewQueues> => call<ReviewQueues>(path("review", "queues"));

// The next item that nobody is at, behind the one that is skipped; null where none waits.
export const takeNext = (kind: Kind, after: string): Promise<ReviewItem | null> =>
  call<ReviewItem | null>(`${path("review", "queues", kind, "next")}${after ? `?${new URLSearchParams({ after })}` : ""}`);

export const decide = (item: ReviewItem, said: Said): Promise<ReviewItem> =>
  post<ReviewItem>(path("review", "items", item.id, "decision"), { version: item.version, ...said });

export const takeBack = (item: ReviewItem): Promise<ReviewItem> => call<ReviewItem>(path("review", "items", item.id, "decision"), { method: "DELETE" });

export const readDecisions = (kind: Kind | "", token: string): Promise<DecisionPage> =>
  call<DecisionPage>(`${path("review", "decisions")}?${new URLSearchParams({ ...(kind && { kind }), ...(token && { page_token: token }) })}`);

// What an edit began from: the only text, or the proposed one.
export const editable = (item: ReviewItem): ReviewText | undefined => item.texts.at(-1);
