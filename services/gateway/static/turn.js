// One turn of the thread: the question, the trace while it runs, the answer with its live parts.
import { follow, post } from "/static/api.js";
import { escape, render } from "/static/markdown.js";
import { describe, element, figureOf, kindOf, tableOf } from "/static/parts.js";
import { word } from "/static/words.js";

const ICONS = { search: "🔍", fetch: "📄", data: "▦", python: "⌨", think: "…", recall: "↺" };
const STATUS = { TOOL_STATUS_OK: "ok", TOOL_STATUS_EMPTY: "empty", TOOL_STATUS_FAILED: "failed", TOOL_STATUS_INVALID: "invalid" };

export class Turn {
  constructor(question, runId, onChange) {
    this.runId = runId;
    this.material = new Map();
    this.text = "";
    this.steps = 0;
    this.started = performance.now();
    this.onChange = onChange;
    this.root = element("section", "turn", `<div class="asked">${escape(question)}</div>
      <details class="trace"><summary><span class="spin"></span><span class="line">${word("waiting")}</span><span class="dim clock"></span>
      <button type="button" class="stop">${word("stop")}</button></summary><div class="steps"></div></details><div class="answer"></div>`);
    this.line = this.root.querySelector(".line");
    this.list = this.root.querySelector(".steps");
    this.body = this.root.querySelector(".answer");
    this.root.querySelector(".stop").addEventListener("click", (event) => { event.preventDefault(); this.stop(); });
    this.clock = setInterval(() => { this.root.querySelector(".clock").textContent = `${this.seconds()} s`; }, 500);
  }

  seconds() { return ((performance.now() - this.started) / 1000).toFixed(1); }

  start() { this.source = follow(this.runId, (event) => this.on(event), (error) => this.fail(error.message, error.culprit)); }

  stop() { post(`/v1/runs/${this.runId}/stop`).catch((error) => this.fail(error.message)); }

  on(event) {
    if (event.started) { this.conversation = event.started.conversation_id; this.model = event.started.model; }
    if (event.thought) this.list.append(element("div", "step thought", escape(event.thought.text ?? "")));
    if (event.tool_started) this.begin(event.tool_started);
    if (event.tool_finished) this.end(event.tool_finished);
    if (event.answer_delta) { this.text += event.answer_delta.text ?? ""; this.body.innerHTML = render(this.text); }
    if (event.finished) this.finish(event.finished);
    this.onChange(this);
  }

  begin({ call, intent }) {
    this.steps += 1;
    this.line.textContent = intent;
    const row = element("details", "step", `<summary><span>${ICONS[call.name] ?? "•"}</span><span class="tool">${escape(call.name)}</span>
      <span class="line">${escape(intent ?? "")}</span><span class="dim state">…</span></summary><pre>${escape(call.arguments_json ?? "")}</pre>`);
    row.dataset.call = call.id ?? "";
    this.list.append(row);
  }

  end({ result, material = [] }) {
    for (const item of material) this.material.set(item.number, item);
    const rows = [...this.list.querySelectorAll("details.step")].filter((row) => row.dataset.call === (result.tool_call_id ?? ""));
    const row = rows.at(-1);
    if (!row) return;
    const status = STATUS[result.status] ?? "";
    row.querySelector(".state").outerHTML = `<span class="state ${status}">${status} ${result.duration_ms ?? 0} ms</span>`;
    row.append(element("pre", "", escape(result.content ?? "")));
  }

  finish(finished) {
    for (const item of finished.material ?? []) this.material.set(item.number, item);
    this.done(`${this.steps} ${word("steps")} · ${this.seconds()} s`);
    if (!finished.answer) return this.fail(finished.error || word("failed"), finished.culprit);
    this.text = finished.answer.markdown;
    this.model = finished.answer.model;
    this.body.innerHTML = render(this.text);
    this.fill();
    const missing = [...this.material.values()].filter((item) => item.missing);
    if (missing.length) this.body.append(element("p", "", missing.map((item) => `<span class="chip" title="${escape(item.missing.detail ?? "")}">${word("missing")}: ${escape(item.missing.subject)}</span>`).join("")));
  }

  // Puts tables and figures where the answer refers to them; what does not exist is said, not hidden.
  fill() {
    const items = [...this.material.values()];
    for (const place of this.body.querySelectorAll("[data-table]")) {
      const item = items.find((candidate) => candidate.variable === place.dataset.table && candidate.sheet);
      place.replaceWith(item ? tableOf(item.sheet, item.variable) : element("span", "chip error", `${place.dataset.table} ${word("gone")}`));
    }
    const figures = new Set(items.flatMap((item) => (item.code?.figures ?? []).map((figure) => figure.id)));
    for (const place of this.body.querySelectorAll("[data-figure]")) {
      const known = figures.has(place.dataset.figure);
      place.replaceWith(known ? figureOf(this.runId, place.dataset.figure) : element("span", "chip error", `${place.dataset.figure} ${word("gone")}`));
    }
    for (const chip of this.body.querySelectorAll("[data-cite]")) {
      const item = this.material.get(Number(chip.dataset.cite));
      if (item) chip.classList.add(kindOf(item));
    }
  }

  fail(message, culprit = "") {
    this.done(word("failed"));
    this.body.append(element("p", "", `<span class="chip error">${culprit ? `${escape(culprit)}: ` : ""}${escape(message)}</span>`));
  }

  done(line) {
    clearInterval(this.clock);
    this.source?.close();
    this.finished = true;
    this.line.textContent = line;
    for (const gone of this.root.querySelectorAll(".spin, .stop, .clock")) gone.remove();
  }

  // The right panel's content for a tab.
  panel(tab) {
    const items = [...this.material.values()].sort((a, b) => a.number - b.number);
    const wanted = { sources: (item) => !item.code, data: (item) => item.sheet, code: (item) => item.code }[tab];
    if (!wanted) return [element("div", "", this.list.innerHTML)];
    return items.filter(wanted).map((item) => {
      const box = element("div", "source", `<span class="dim">[${item.number}]</span> ${describe(item)}`);
      box.dataset.number = item.number;
      return box;
    });
  }
}
