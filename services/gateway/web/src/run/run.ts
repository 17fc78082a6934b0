// What is known of one run, from its events or from its record. No DOM in here: tested under node.

const STATUS = {
  TOOL_STATUS_OK: "ok", TOOL_STATUS_EMPTY: "empty", TOOL_STATUS_FAILED: "failed", TOOL_STATUS_INVALID: "invalid",
};
const STOP = {
  STOP_REASON_FINISHED: "finished", STOP_REASON_BUDGET: "budget", STOP_REASON_STOPPED: "stopped",
  STOP_REASON_FAILED: "failed", STOP_REASON_UNFINISHED: "unfinished",
};

export const kindOf = (item) => ["passage", "sheet", "code", "missing"].find((kind) => item[kind]) ?? "missing";

// The words of an answer that asks back, without the list of options: those are buttons.
export function withoutOptions(markdown, options) {
  const listed = new Set(options.map((option) => `- ${option}`));
  return listed.size ? markdown.split("\n").filter((line) => !listed.has(line)).join("\n") : markdown;
}

function argumentsOf(call) {
  try {
    const { intent, ...rest } = JSON.parse(call?.arguments_json || "{}");
    return { intent: String(intent ?? ""), rest };
  } catch {
    return { intent: "", rest: { arguments: call.arguments_json } };
  }
}

export class Run {
  constructor(id, question) {
    this.id = id;
    this.question = question;
    this.conversation = "";
    this.model = "";
    this.last = 0;
    this.waiting = null;
    this.rows = [];
    this.material = new Map();
    this.text = "";
    this.draft = false;
    this.cited = new Set();
    this.findings = [];
    this.reading = null;
    this.remembered = null;
    this.clarification = null;
    this.state = "running";
    this.error = "";
    this.culprit = "";
    this.usage = null;
    this.began = null;
    this.ended = null;
    this.lag = Infinity;
    this.purposes = new Map();
    this.todo = [];
    this.tokens = 0;
    this.window = 0;
    this.children = [];
    this.protocol = "";
  }

  get resumable() { return ["stopped", "budget", "failed", "unfinished"].includes(this.state) && this.last > 0; }

  get over() { return this.state !== "running"; }
  get calls() { return this.rows.filter((row) => row.tool); }
  get items() { return [...this.material.values()].sort((a, b) => a.number - b.number); }

  of(kind) { return this.items.filter((item) => item[kind]); }

  // What the run is doing now, in the model's own words.
  get intent() { return this.rows.findLast((row) => row.tool && !row.status)?.intent ?? this.rows.at(-1)?.intent ?? ""; }

  sheet(variable) { return this.items.find((item) => item.sheet && item.variable === variable); }

  figure(id) {
    for (const item of this.of("code")) {
      const found = item.code.figures?.find((figure) => figure.id === id);
      if (found) return { figure: found, item };
    }
    return null;
  }

  // Milliseconds from the first event to the end, or to now; null when unknown. The smallest lag of an
  // event is taken for the difference between this clock and the planner's.
  elapsed(now) {
    if (this.began === null || (this.over && this.ended === null)) return null;
    return Math.max(0, (this.ended ?? now - this.lag) - this.began);
  }

  // Takes one event; false when it was seen before.
  apply(event) {
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
    const time = Date.parse(event.time);
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
    } else if (event.todo_changed) this.todo = event.todo_changed.items;
    else if (event.sampled) this.#measure(event.sampled);
    else if (event.compacted) this.#compact(event.compacted);
    else if (event.staged) this.#stage(event.staged.stage);
    else if (event.resumed) this.#resume();
    else if (event.thought) this.rows.push({ thought: event.thought.text, kind: event.thought.kind, intent: "" });
    else if (event.tool_started) this.#begin(event.tool_started);
    else if (event.tool_finished) this.#result(event.tool_finished.result, event.tool_finished.material);
    else if (event.answer_delta) this.#write(event.answer_delta);
    else if (event.answer_replaced) this.#replace(event.answer_replaced);
    else if (event.finished) this.#finish(event.finished, time);
    return true;
  }

  // How full the model's window is.
  #measure({ prompt_tokens, completion_tokens, window_tokens }) {
    this.tokens = Number(prompt_tokens) + Number(completion_tokens);
    this.window = Number(window_tokens) || this.window;
  }

  #compact(compacted) {
    this.tokens = Number(compacted.tokens_after);
    this.window = Number(compacted.window_tokens) || this.window;
    this.rows.push({ mark: "compacted", ...compacted, intent: "" });
  }

  // A stage of the workflow: what it made of the question, how many sub-questions it sent, what was mended.
  #stage(stage) {
    const sent = (stage.queries ?? []).filter((query) => !query.dropped);
    this.rows.push({ mark: "staged", name: stage.name, text: stage.text, sent, flaws: stage.flaws ?? [], intent: "" });
  }

  // A draft is read while it is sampled; nothing of it is checked before the end.
  #write({ text, draft }) {
    this.text += text;
    this.draft = Boolean(draft);
  }

  // What stood there does not hold: the reader is told when a check took it back, not when its figures were drawn.
  #replace({ why }) {
    this.text = "";
    this.draft = false;
    if (why === "correction" || why === "refused") this.rows.push({ mark: "replaced", why, intent: "" });
  }

  #resume() {
    Object.assign(this, { state: "running", ended: null, error: "", culprit: "", text: "", draft: false, reading: null, clarification: null });
    this.rows.push({ mark: "resumed", intent: "" });
  }

  #begin({ call, intent }) {
    const { rest } = argumentsOf(call);
    this.rows.push({ id: call.id, tool: call.name, intent, input: rest, status: "", ms: 0, content: "", material: [] });
  }

  #result(result, material = []) {
    for (const number of result.material) this.purposes.set(number, result.intent);
    this.#collect(material);
    let row = this.rows.findLast((candidate) => candidate.id === result.tool_call_id && !candidate.status);
    if (!row) {
      row = { id: result.tool_call_id, tool: result.tool, intent: result.intent, input: {} };
      this.rows.push(row);
    }
    const status = STATUS[result.status] ?? "failed";
    Object.assign(row, { status, ms: Number(result.duration_ms), content: result.content, material: result.material });
  }

  #collect(material = []) {
    for (const item of material) this.material.set(item.number, { ...item, purpose: this.purposes.get(item.number) ?? "" });
  }

  #finish(finished, time) {
    this.#collect(finished.material);
    this.#answer(finished.answer);
    this.state = STOP[finished.stop_reason] ?? "failed";
    this.error = finished.error;
    this.culprit = finished.culprit;
    this.usage = finished.usage;
    this.ended = time;
  }

  #answer(answer) {
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
  lose(failure) {
    this.state = "failed";
    this.error = failure.message;
    this.culprit = failure.culprit;
  }

  // Takes the record of a run that is over (`GET /v1/runs/{id}`).
  load({ trajectory, todo = [], children = [] }) {
    this.todo = todo;
    this.children = children;
    this.protocol = trajectory.protocol ?? "";
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
        if (result.tool === "think") this.rows.push({ thought: String(rest.content ?? ""), kind: rest.kind, intent: "" });
        else this.#begin({ call: call ?? { id: result.tool_call_id, name: result.tool }, intent: result.intent });
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
