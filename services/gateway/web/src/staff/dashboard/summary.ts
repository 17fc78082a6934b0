// Figures of many runs: how they ended, and per model how long they took and what they cost. Pure: tested under Node.
import type { RunSummary } from "../../contract/types";

export interface ModelFigures {
  model: string;
  runs: number;
  answered: number;
  tokens: number;
  cost: number;
  // Of the runs whose end is known, waits between resumptions included; null where there is none.
  median_ms: number | null;
  slowest_ms: number | null;
}

export interface Figures {
  states: { state: string; runs: number }[];
  // Of the runs that failed, by the service that did; most frequent first.
  causes: { cause: string; runs: number; example: string }[];
  models: ModelFigures[];
}

export const stateOf = (run: RunSummary): string => {
  const state = run.stop_reason.replace("STOP_REASON_", "").toLowerCase();
  return state === "unspecified" ? "running" : state;
};

// From its beginning to the end of its last leg; null while it runs, or where the end was not noted.
export const durationOf = ({ start_time, end_time }: RunSummary): number | null =>
  (start_time && end_time ? Math.max(0, Date.parse(end_time) - Date.parse(start_time)) : null);

export const laneOf = (run: RunSummary): string => run.lane.replace("LANE_", "").toLowerCase().replace("unspecified", "");

export const tokensOf = ({ usage }: RunSummary): number => Number(usage?.prompt_tokens ?? 0) + Number(usage?.completion_tokens ?? 0);

function median(sorted: number[]): number | null {
  if (!sorted.length) return null;
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function summarizeModel(model: string, runs: RunSummary[]): ModelFigures {
  const times = runs.map(durationOf).filter((ms) => ms !== null).sort((a, b) => a - b);
  const sum = (of: (run: RunSummary) => number): number => runs.reduce((total, run) => total + of(run), 0);
  return {
    model, runs: runs.length, answered: runs.filter((run) => stateOf(run) === "finished").length,
    tokens: sum(tokensOf), cost: sum(({ usage }) => Number(usage?.cost ?? 0)), median_ms: median(times), slowest_ms: times.at(-1) ?? null,
  };
}

function countCauses(runs: RunSummary[]): Figures["causes"] {
  const causes = new Map<string, Figures["causes"][number]>();
  for (const { culprit, error } of runs.filter((run) => stateOf(run) === "failed")) {
    const known = causes.get(culprit) ?? { cause: culprit, runs: 0, example: error };
    causes.set(culprit, { ...known, runs: known.runs + 1 });
  }
  return [...causes.values()].sort((a, b) => b.runs - a.runs);
}

export function summarize(runs: RunSummary[]): Figures {
  const states = new Map<string, number>();
  const models = new Map<string, RunSummary[]>();
  for (const run of runs) {
    states.set(stateOf(run), (states.get(stateOf(run)) ?? 0) + 1);
    models.set(run.model, [...(models.get(run.model) ?? []), run]);
  }
  return {
    causes: countCauses(runs),
    states: [...states].map(([state, number]) => ({ state, runs: number })).sort((a, b) => b.runs - a.runs),
    models: [...models].map(([model, own]) => summarizeModel(model, own)).sort((a, b) => b.runs - a.runs),
  };
}
