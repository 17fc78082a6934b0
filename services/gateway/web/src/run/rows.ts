// What the page holds of a run: its state, its material and the rows of its trace.
import type { Compacted, Material, Stage, SubQuery } from "../contract/types";

export type State = "running" | "finished" | "budget" | "stopped" | "failed" | "unfinished";
export type Kind = "passage" | "sheet" | "code" | "missing";
export type Status = "" | "ok" | "empty" | "failed" | "invalid";

// A material with the intent of the call that found it.
export type Item = Material & { purpose: string };
export type SheetItem = Item & { sheet: NonNullable<Material["sheet"]> };
export type CodeItem = Item & { code: NonNullable<Material["code"]> };

export interface ToolRow {
  id: string;
  tool: string;
  intent: string;
  input: Record<string, unknown>;
  status: Status;
  ms: number;
  content: string;
  // An equal call had the result before: nothing was looked up for this one.
  isCached: boolean;
  material: number[];
}

export interface ThoughtRow {
  thought: string;
  kind: string;
  intent: "";
}

// What happened to the run itself.
export type MarkRow = { intent: "" } & (
  | { mark: "report" }
  | { mark: "resumed" }
  | { mark: "capped"; text: string }
  | { mark: "replaced"; why: string }
  | ({ mark: "compacted" } & Compacted)
  | { mark: "staged"; name: string; text: string; sent: SubQuery[]; flaws: Stage["flaws"] }
);

export type Row = ToolRow | ThoughtRow | MarkRow;

export const isTool = (row: Row): row is ToolRow => "tool" in row;
export const isThought = (row: Row): row is ThoughtRow => "thought" in row;
