// What the run does: one line while it works, all steps when opened.
import { el } from "../base/dom";
import { count, duration } from "../base/format";
import { counted, word } from "../base/words";
import { type MarkRow, type Row, type ToolRow, isThought, isTool } from "../run/rows";
import type { Run } from "../run/run";

const ICONS: Record<string, string> = { search: "⌕", fetch: "▤", data: "▦", catalogue: "☷", sql: "⋈", python: "λ", finish: "✓", think: "…", todo: "☑", recall: "↺", delegate: "⑂" };
// One icon per kind of thought.
const THOUGHTS: Record<string, string> = {
  "argument decomposition": "⊢", "viewpoint attack": "⚔", "data insight": "◔", "logical attribution": "∴",
  restatement: "≡", reasoning: "✻", plain: "…",
};
const MARKS: Record<ToolRow["status"], string> = { "": "", ok: "✓", empty: "∅", failed: "✗", invalid: "!" };

// One row; its result is shown when it is opened.
export function rowOf(row: Row, open = false): HTMLElement {
  if (isTool(row)) return toolOf(row, open);
  if (!isThought(row)) return markOf(row);
  // A model's own thought is long: only its beginning is shown until it is opened.
  if (row.kind === "reasoning") {
    return el("details", { class: "row", open, data: { kind: row.kind } },
      el("summary", {}, el("span", { class: "icon" }, THOUGHTS.reasoning!), el("span", { class: "tool" }, word("reasoning")),
        el("span", { class: "intent" }, row.thought.slice(0, 160))),
      el("pre", {}, row.thought));
  }
  const icon = el("span", { class: "icon", title: row.kind || "plain" }, THOUGHTS[row.kind] ?? ICONS.think!);
  return el("div", { class: "row thought", data: { kind: row.kind || "plain" } }, icon,
    el("span", { class: "intent" }, row.thought), el("span", { class: "dim" }, row.kind));
}

function toolOf(row: ToolRow, open: boolean): HTMLElement {
  const running = !row.status;
  const state = running
    ? el("span", { class: "spin", role: "img", "aria-label": word("running") })
    : el("span", { class: `state ${row.status}` }, `${MARKS[row.status]} ${word(row.status).toLowerCase()}`);
  return el("details", { class: "row", open, data: { tool: row.tool } },
    el("summary", {},
      el("span", { class: "icon" }, ICONS[row.tool] ?? "•"), el("span", { class: "tool" }, row.tool),
      el("span", { class: "intent" }, row.intent), state, el("span", { class: "ms" }, running ? "" : duration(row.ms))),
    childOf(row), section(word("input"), inputOf(row)), row.content ? section(word("result"), readable(row.content)) : null);
}

// What happened to the run itself: its window was made smaller, it was resumed.
function markOf(row: MarkRow): HTMLElement {
  if (row.mark === "replaced") {
    return el("div", { class: "row mark", data: { why: row.why } }, el("span", { class: "icon" }, "↻"), word(`replaced_${row.why}`));
  }
  if (row.mark === "resumed") return el("div", { class: "row mark" }, el("span", { class: "icon" }, "▶"), word("resumed"));
  if (row.mark === "staged") return stageOf(row);
  if (row.mark === "report") return el("div", { class: "row mark", data: { form: "report" } }, el("span", { class: "icon" }, "☰"), word("as_report"));
  if (row.mark === "capped") {
    return el("div", { class: "row mark" }, el("span", { class: "icon" }, "⊤"), word("capped"), el("span", { class: "dim" }, row.text));
  }
  const tokens = `${count(row.tokens_before)} → ${count(row.tokens_after)} ${word("tokens")}`;
  const dropped = counted(row.dropped_steps.length, "one_step", "steps");
  return el("div", { class: "row mark" }, el("span", { class: "icon" }, "⇲"), word("compacted"),
    el("span", { class: "dim" }, `${row.policy} · ${dropped} · ${tokens}`));
}

// A stage of the workflow in one line.
function stageOf(row: MarkRow & { mark: "staged" }): HTMLElement {
  const said = [row.text, row.sent.length && counted(row.sent.length, "sub_question", "sub_questions"),
    row.flaws.length && `${row.flaws.length} ${word("mended")}`].filter(Boolean).join(" · ");
  return el("div", { class: "row mark", data: { stage: row.name } }, el("span", { class: "icon" }, "▸"),
    word(`stage_${row.name}`), el("span", { class: "dim", title: row.flaws.map((flaw) => flaw.fault).join(", ") }, said));
}

// The run that a sub-question became; null for other rows.
function childOf(row: ToolRow): HTMLElement | null {
  if (row.tool !== "delegate" || !row.content) return null;
  try {
    const { run_id } = JSON.parse(row.content.split("\n")[0] ?? "") as { run_id?: string };
    return run_id ? el("a", { class: "child", href: `?child=1#run=${encodeURIComponent(run_id)}`, target: "_blank" }, word("subRun")) : null;
  } catch {
    return null;
  }
}

const section = (title: string, text: string): HTMLElement => el("div", { class: "io" }, el("span", { class: "dim" }, title), el("pre", {}, text));

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
const inputOf = (row: ToolRow): string =>
  typeof row.input.code === "string" ? row.input.code : Object.entries(row.input).map(([name, value]) => `${name}: ${asText(value)}`).join("\n");

// A result is one JSON line for programs, then text for reading: hits are spelled out, the rest is given as it is.
interface Hit {
  time?: string;
  title: string;
  summary: string;
}

function readable(content: string): string {
  const [head = "", ...rest] = content.split("\n");
  const text = rest.join("\n").trim();
  try {
    const { hits, error } = JSON.parse(head) as { hits?: Hit[]; error?: string };
    if (hits?.length) return hits.map((hit) => `${hit.time || "–"}  ${hit.title}\n    ${hit.summary}`).join("\n");
    return [error, text].filter(Boolean).join("\n\n") || head;
  } catch {
    return content;
  }
}

export class TraceView {
  readonly root: HTMLDetailsElement;
  readonly stop: HTMLButtonElement;
  readonly resume: HTMLButtonElement;
  readonly meter: HTMLMeterElement;
  readonly rows = el("div", { class: "rows" });
  readonly spin = el("span", { class: "spin" });
  readonly line = el("span", { class: "intent" });
  readonly clock = el("span", { class: "ms" });
  readonly run: Run;
  readonly #shown: { key: string; element: HTMLElement }[] = [];
  note = "";

  constructor(run: Run, onStop: () => void, onResume: () => void) {
    this.run = run;
    const stopped = (event: Event): void => {
      event.preventDefault(); // the button stands in the summary, which would fold
      onStop();
    };
    this.stop = el("button", { type: "button", class: "stop", onclick: stopped }, word("stop"));
    const resumed = (event: Event): void => {
      event.preventDefault();
      onResume();
    };
    this.resume = el("button", { type: "button", class: "resume", hidden: true, onclick: resumed }, word("resume"));
    this.meter = el("meter", { min: 0, max: 1, high: 0.7, hidden: true, "aria-label": word("context") });
    const line = el("summary", {}, this.spin, this.line, this.meter, this.clock, this.stop, this.resume);
    this.root = el("details", { class: "trace" }, line, this.rows);
  }

  update(): void {
    this.run.rows.forEach((row, i) => {
      const what = isTool(row) ? [row.id, row.status] : isThought(row) ? [row.kind, row.thought] : [row.mark];
      const key = [...what, row.intent].join("|");
      const old = this.#shown[i];
      if (old?.key === key) return;
      const element = rowOf(row, old?.element instanceof HTMLDetailsElement && old.element.open);
      if (old) old.element.replaceWith(element);
      else this.rows.append(element);
      this.#shown[i] = { key, element };
    });
    for (const gone of this.#shown.splice(this.run.rows.length)) gone.element.remove();
    this.tick();
  }

  // Runs once a second while the run does, and at every event.
  tick(): void {
    const { run } = this;
    this.root.classList.toggle("over", run.over);
    this.spin.hidden = this.stop.hidden = run.over;
    this.resume.hidden = !run.resumable;
    this.meter.hidden = run.over || !run.tokens;
    this.meter.value = run.window ? run.tokens / run.window : 0;
    this.meter.title = [count(run.tokens), run.window && `/ ${count(run.window)}`, word("tokens")].filter(Boolean).join(" ");
    this.line.textContent = run.over ? summary(run) : this.note || now(run);
    const took = run.elapsed(Date.now());
    this.clock.textContent = took === null ? "" : run.over ? duration(took) : `${Math.round(took / 1000)} s`;
  }
}

function now(run: Run): string {
  if (run.text && !run.waiting) return word(run.draft ? "drafting" : "writing");
  if (run.waiting?.message) return `${word("away")} ${run.waiting.culprit}`;
  if (run.waiting) return `${word("queued")} ${run.waiting.before}`;
  if (!run.last) return word("waiting");
  return run.intent || word("thinking");
}

function summary(run: Run): string {
  const calls = run.calls.length;
  const parts = [word(run.state), ...(run.protocol === "PROTOCOL_WORKFLOW" ? [word("mode_workflow")] : []), counted(calls, "one_step", "steps")];
  const sheets = run.of("sheet").length;
  const passages = run.of("passage").length;
  if (passages) parts.push(counted(passages, "one_source", "n_sources"));
  if (sheets) parts.push(counted(sheets, "one_sheet", "sheets"));
  return parts.join(" · ");
}
