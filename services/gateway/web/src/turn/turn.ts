// One turn of the thread: the question, the trace, the answer and what can be done with it.
import { path, post } from "../base/api";
import { AnswerView, missingChips, removedChips } from "../answer/answer";
import { announce, el } from "../base/dom";
import { UsedView } from "../side/memory";
import { ReadingView } from "./reading";
import { Run } from "../run/run";
import { follow } from "../run/stream";
import { TodoView } from "./todo";
import { TraceView } from "./trace";
import { word } from "../base/words";

export class Turn {
  // `onChange(turn)` after every change, `onOpen(turn, item)` when something that the answer cites is asked for,
  // `onAsk(question)` when a reading is changed or an option of a question back is chosen, `onRemembered(id)` when
  // something of memory is to be seen.
  constructor(question, runId, { onChange, onOpen, onAsk, onRemembered }) {
    this.run = new Run(runId, question);
    this.onChange = onChange;
    this.trace = new TraceView(this.run, () => this.stop(), () => this.resume());
    this.todo = new TodoView(this.run);
    this.answer = new AnswerView(this.run, (item) => onOpen(this, item));
    this.onAsk = onAsk;
    this.reading = new ReadingView(this.run, onAsk);
    this.used = new UsedView(this.run, onRemembered);
    this.after = el("div", { class: "after" });
    this.root = el("article", { class: "turn", data: { run: runId } },
      el("h2", { class: "asked" }, question), this.trace.root, this.todo.root, this.reading.root, this.answer.root,
      this.used.root, this.after);
    this.frame = 0;
  }

  // Follows the run from its first event; safe for runs of any age that the planner still streams.
  follow() {
    clearInterval(this.clock);
    this.clock = setInterval(() => this.trace.tick(), 1000);
    this.stream = follow(this.run.id, this.run.last, {
      onEvent: (event) => { if (this.run.apply(event)) this.#changed(); },
      onFailure: (failure) => { this.run.lose(failure); this.#changed(); },
      onWaiting: (waiting) => { this.trace.note = waiting ? word("reconnecting") : ""; this.trace.tick(); },
    });
    this.trace.tick();
    return this;
  }

  // Shows a run that is over from its record.
  load(record) {
    this.run.load(record);
    this.#changed();
    return this;
  }

  stop() {
    if (this.run.over) return;
    this.trace.stop.disabled = true;
    post(path("runs", this.run.id, "stop")).catch((problem) => {
      this.trace.stop.disabled = false;
      this.trace.note = problem.message;
      this.trace.tick();
    });
  }

  // Goes on after an end without an answer; further events follow those that are there.
  async resume() {
    this.trace.resume.disabled = true;
    try {
      await post(path("runs", this.run.id, "resume"));
      this.after.replaceChildren();
      this.stream?.close();
      this.follow();
    } catch (problem) {
      announce(problem.message);
      this.after.replaceChildren(el("p", {}, el("span", { class: "chip bad", role: "alert" }, problem.message)));
    } finally {
      this.trace.resume.disabled = this.trace.stop.disabled = false;
    }
  }

  leave() {
    clearInterval(this.clock);
    cancelAnimationFrame(this.frame);
    this.stream?.close();
  }

  #changed() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  draw() {
    const { run } = this;
    this.trace.update();
    this.todo.update();
    this.reading.update();
    this.answer.update();
    this.used.update();
    if (!run.over && run.intent) announce(run.intent);
    if (run.over) {
      clearInterval(this.clock);
      this.#conclude();
      announce(word(run.state));
    }
    this.onChange(this);
  }

  // Draws again what carries words of the page itself, after a change of its language.
  translate() {
    this.trace.tick();
    this.reading.translate();
    this.used.update();
    if (this.run.over) this.#conclude();
  }

  #conclude() {
    const { run } = this;
    const parts = [this.#options(), missingChips(run), removedChips(run), this.#failure(), this.#toolbar()];
    this.after.replaceChildren(...parts.filter(Boolean));
  }

  // The questions that the planner offers where it could not tell which one was meant; null without any.
  #options() {
    const options = this.run.clarification?.options ?? [];
    if (!options.length) return null;
    const choices = options.map((option) =>
      el("li", {}, el("button", { type: "button", class: "example", onclick: () => this.onAsk(option) }, option)));
    return el("ul", { class: "choices", "aria-label": word("choose") }, choices);
  }

  #failure() {
    const { run } = this;
    if (!run.error && run.text) return null;
    const reason = [run.culprit, run.error || `${word("noAnswer")} (${word(run.state)})`].filter(Boolean);
    const said = run.error.startsWith(`${run.culprit}:`) ? run.error : reason.join(": ");
    return el("p", {}, el("span", { class: "chip bad", role: "alert" }, said));
  }

  #toolbar() {
    const { run } = this;
    if (!run.text) return null;
    const label = run.model === "rules" ? word("rules") : run.model;
    const copy = el("button", { type: "button", class: "quiet", onclick: () => this.#copy(copy) }, word("copy"));
    const judge = (helpful) => el("button", {
      type: "button", class: "quiet", onclick: (event) => this.#judge(helpful, event.currentTarget),
    }, word(helpful ? "helpful" : "unhelpful"));
    const spacer = el("span", { class: "spacer" });
    return el("div", { class: "tools" }, copy, judge(true), judge(false), spacer, el("span", { class: "badge" }, label));
  }

  async #copy(button) {
    await navigator.clipboard.writeText(this.run.text).catch(() => {});
    button.textContent = word("copied");
  }

  async #judge(helpful, button) {
    try {
      await post(path("runs", this.run.id, "feedback"), { helpful });
      button.parentElement.querySelectorAll("[aria-pressed]").forEach((other) => other.removeAttribute("aria-pressed"));
      button.setAttribute("aria-pressed", "true");
      announce(word("thanks"));
    } catch (problem) {
      announce(problem.message);
    }
  }
}
