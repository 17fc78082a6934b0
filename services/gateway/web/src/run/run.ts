// What is known of one run, from its events or from its record. No DOM in here: tested under node.

import type {
  Answer, Clarification, Compacted, FigureRef, Finding, Material, Reading, Remembered, RunEvent, RunFinished, RunRecord,
  RunSummary, RunWaiting, Sampled, Stage, StopReason, TodoItem, ToolCall, ToolCallStarted, ToolResult, Usage,
} from "../contract/types";
import { type CodeItem, type Item, type Kind, type Row, type SheetItem, type State, type Status, type ToolRow, isTool } from "./rows";

const STATUS: Partial<Record<ToolResult["status"], Status>> = {
  TOOL_STATUS_OK: "ok", TOOL_STATUS_EMPTY: "empty", TOOL_STATUS_FAILED: "failed", TOOL_STATUS_INVALID: "invalid",
};
const STOP: Partial<Record<StopReason, State>> = {
  STOP_REASON_FINISHED: "finished", STOP_REASON_BUDGET: "budget", STOP_REASON_STOPPED: "stopped",
  STOP_REASON_FAILED: "failed", STOP_REASON_UNFINISHED: "unfinished",
};

const ALL_KINDS: Kind[] = ["passage", "sheet", "code", "missing"];
export const kindOf = (item: Material): Kind => ALL_KINDS.find((kind) => item[kind]) ?? "missing";

// The words of an answer that asks back, without the list of options: those are buttons.
export function withoutOptions(markdown: string, options: string[]): string {
  const listed = new Set(options.map((option) => `- ${option}`));
  return listed.size ? markdown.split("\n").filter((line) => !listed.has(line)).join("\n") : markdown;
}

function argumentsOf(call: ToolCall | undefined): { intent: string; rest: Record<string, unknown> } {
  try {
    const { intent, ...rest } = JSON.parse(call?.arguments_json || "{}") as Record<string, unknown>;
    return { intent: String(intent ?? ""), rest };
  } catch {
    return { intent: "", rest: { arguments: call?.arguments_json } };
  }
}

export class Run {
  readonly id: string;
  readonly question: string;
  conversation = "";
  model = "";
  last = 0;
  waiting: RunWaiting | null = null;
  rows: Row[] = [];
  material = new Map<number, Item>();
  text = "";
  draft = false;
  cited = new Set<number>();
  findings: Finding[] = [];
  reading: Reading | null = null;
  remembered: Remembered | null = null;
  clarification: Clarification | null = null;
  state: State = "running";
  error = "";
  culprit = "";
  usage: Usage | null = null;
  began: number | null = null;
  ended: number | null = null;
  lag = Infinity;
  purposes = new Map<number, string>();
  todo: TodoItem[] = [];
  // The change that made the plan what it is; "" for none.
  todoVersion = "";
  tokens = 0;
  window = 0;
  children: RunSummary[] = [];
  protocol = "";
  #rewritten = "";

  constructor(id: string, question: string) {
    this.id = id;
    this.question = question;
  }

  get resumable(): boolean { return ["stopped", "budget", "failed", "unfinished"].includes(this.state) && this.last > 0; }

  get over(): boolean { return this.state !== "running"; }
  get calls(): ToolRow[] { return this.rows.filter(isTool); }
  get items(): Item[] { return [...this.material.values()].sort((a, b) => a.number - b.number); }

  of<K extends Kind>(kind: K): (Item & Required<Pick<Material, K>>)[] {
    return this.items.filter((item): item is Item & Required<Pick<Material, K>> => Boolean(item[kind]));
  }

  // The question as it was understood, as soon as that is known; "" where it is the question's own words.
  get understood(): string {
    const text = this.reading?.question || this.#rewritten;
    return text === this.question ? "" : text;
  }

  // What the run is doing now, in the model's own words.
  get intent(): string {
    return this.rows.findLast((row) => isTool(row) && !row.status)?.intent ?? this.rows.at(-1)?.intent ?? "";
  }

  sheet(variable: string): SheetItem | undefined { return this.of("sheet").find((item) => item.variable === variable); }

  figure(id: string): { figure: FigureRef; item: CodeItem } | null {
    for (const item of this.of("code")) {
      const found = item.code.figures.find((figure) => figure.id === id);
      if (found) return { figure: found, item };
    }
    return null;
  }

  // Milliseconds from the first event to the end, or to now; null when unknown. The smallest lag of an
  // event is taken for the difference between this clock and the planner's.
  elapsed(now: number): number | null {
    if (this.began === null || (this.over && this.ended === null)) return null;
    return Math.max(0, (this.ended ?? now - this.lag) - this.began);
  }

  // Takes one event; false when it was seen before.
  apply(event: RunEvent): boolean {
    const sequence = Number(event.sequence);
    // In the queue the same number is told again, with another place.
    if (event.waiting && sequence >= this.last) {
      this.last = sequence;
      this.waiting = event.waiting;
      return true;
    }
    if (sequence <= this.last) return false;
    this.waiting = null;
    this.last = sequence;
    const time = Date.parse(event.time ?? "");
    this.began ??= time;
    this.lag = Math.min(this.lag, Date.now() - time);
    if (event.started) {
      this.conversation = event.started.conversation_id;
      this.model = event.started.model;
      this.protocol = event.started.protocol;
      this.remembered = event.started.remembered ?? null;
      if (event.started.form === "ANSWER_FORM_REPORT") this.rows.push({ mark: "report", intent: "" });
      for (const text of event.started.capped ?? []) this.rows.push({ mark: "capped", text, intent: "" });
      this.#collect(event.started.given);
    } else if (event.todo_changed) this.setTodo(event.todo_changed.items, event.todo_changed.change_id);
    else if (event.sampled) this.#measure(event.sampled);
    else if (event.compacted) this.#compact(event.compacted);
    else if (event.staged?.stage) this.#stage(event.staged.stage);
    else if (event.resumed) this.#resume();
    else if (event.thought) this.rows.push({ thought: event.thought.text, kind: event.thought.kind, intent: "" });
    else if (event.tool_started) this.#begin(event.tool_started);
    else if (event.tool_finished?.result) this.#result(event.tool_finished.result, event.tool_finished.material);
    else if (event.answer_delta) this.#write(event.answer_delta);
    else if (event.answer_replaced) this.#replace(event.answer_replaced);
    else if (event.finished) this.#finish(event.finished, time);
    return true;
  }

  // How full the model's window is.
  #measure({ prompt_tokens, completion_tokens, window_tokens }: Sampled): void {
    this.tokens = Number(prompt_tokens) + Number(completion_tokens);
    this.window = Number(window_tokens) || this.window;
  }

  #compact(compacted: Compacted): void {
    this.tokens = Number(compacted.tokens_after);
    this.window = Number(compacted.window_tokens) || this.window;
    this.rows.push({ mark: "compacted", ...compacted, intent: "" });
  }

  // A stage of the workflow: what it made of the question, how many sub-questions it sent, what was mended.
  #stage(stage: Stage): void {
    if (stage.name === "rewrite") this.#rewritten = stage.text || this.#rewritten;
    const sent = (stage.queries ?? []).filter((query) => !query.dropped);
    this.rows.push({ mark: "staged", name: stage.name, text: stage.text, sent, flaws: stage.flaws ?? [], intent: "" });
  }

  // A draft is read while it is sampled; nothing of it is checked before the end.
  #write({ text, draft }: { text: string; draft: boolean }): void {
    this.text += text;
    this.draft = Boolean(draft);
  }

  // What stood there does not hold: the reader is told when a check took it back, not when its figures were drawn.
  #replace({ why }: { why: string }): void {
    this.text = "";
    this.draft = false;
    if (why === "correction" || why === "refused") this.rows.push({ mark: "replaced", why, intent: "" });
  }

  #resume(): void {
    this.state = "running";
    this.ended = this.reading = this.clarification = null;
    this.error = this.culprit = this.text = "";
    this.draft = false;
    this.rows.push({ mark: "resumed", intent: "" });
  }

  #begin({ call, intent }: Pick<ToolCallStarted, "call" | "intent">): void {
    if (!call) return;
    const { rest } = argumentsOf(call);
    this.rows.push({ id: call.id, tool: call.name, intent, input: rest, status: "", ms: 0, content: "", isCached: false, material: [] });
  }

  #result(result: ToolResult, material: Material[] = []): void {
    for (const number of result.material) this.purposes.set(number, result.intent);
    this.#collect(material);
    let row = this.calls.findLast((candidate) => candidate.id === result.tool_call_id && !candidate.status);
    if (!row) {
      const { tool_call_id: id, tool, intent } = result;
      row = { id, tool, intent, input: {}, status: "", ms: 0, content: "", isCached: false, material: [] };
      this.rows.push(row);
    }
    const status = STATUS[result.status] ?? "failed";
    Object.assign(row, { status, ms: Number(result.duration_ms), content: result.content, isCached: result.is_cached ?? false, material: result.material });
  }

  #collect(material: Material[] = []): void {
    for (const item of material) this.material.set(item.number, { ...item, purpose: this.purposes.get(item.number) ?? "" });
  }

  #finish(finished: RunFinished, time: number): void {
    this.#collect(finished.material);
    this.#answer(finished.answer);
    this.state = STOP[finished.stop_reason] ?? "failed";
    this.error = finished.error;
    this.culprit = finished.culprit;
    this.usage = finished.usage ?? null;
    this.ended = time;
  }

  #answer(answer: Answer | undefined): void {
    if (!answer) return;
    this.draft = false;
    this.cited = new Set(answer.cited);
    this.findings = answer.findings ?? [];
    this.reading = answer.reading ?? null;
    this.clarification = answer.clarification ?? null;
    this.text = withoutOptions(answer.markdown, this.clarification?.options ?? []);
    this.#collect(answer.material);
    this.model = answer.model || this.model;
  }

  // The stream ended before the run did.
  lose(failure: { message: string; culprit: string }): void {
    this.state = "failed";
    this.error = failure.message;
    this.culprit = failure.culprit;
  }

  setTodo(items: TodoItem[], version: string): void {
    this.todo = items;
    this.todoVersion = version;
  }

  // Takes the record of a run that is over (`GET /v1/runs/{id}`).
  load({ trajectory, todo = [], children = [] }: RunRecord): this {
    if (!trajectory) return this;
    // All of it is in the record, whatever was seen before.
    this.rows = [];
    this.todo = todo;
    this.children = children;
    this.protocol = trajectory.protocol ?? "";
    this.#rewritten = trajectory.understood ?? "";
    this.last ||= 1;
    this.remembered = trajectory.remembered ?? null;
    this.#collect(trajectory.given);
    for (const step of trajectory.steps) {
      this.model = step.completion?.model || this.model;
      if (step.stage) this.#stage(step.stage);
      const reasoning = step.completion?.reasoning;
      if (reasoning) this.rows.push({ thought: reasoning, kind: "reasoning", intent: "" });
      for (const result of step.tool_results) {
        const call = step.completion?.tool_calls.find((candidate) => candidate.id === result.tool_call_id);
        const { rest } = argumentsOf(call);
        if (result.tool === "think") this.rows.push({ thought: String(rest.content ?? ""), kind: String(rest.kind ?? ""), intent: "" });
        else this.#begin({ call: call ?? { id: result.tool_call_id, name: result.tool, arguments_json: "" }, intent: result.intent });
        if (result.tool !== "think") this.#result(result, step.material);
      }
    }
    this.#answer(trajectory.answer);
    this.state = STOP[trajectory.stop_reason] ?? "running";
    this.error = trajectory.error;
    this.usage = trajectory.usage ?? null;
    return this;
  }
}
