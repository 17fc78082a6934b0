// One turn of the thread: the question, the trace, the answer and what can be done with it.
import { asProblem, path, post } from "../base/api";
import { AnswerView, missingChips, removedChips, uncheckedChip } from "../answer/answer";
import { announce, el } from "../base/dom";
import { exportMenu, markdownOf } from "./export";
import { UsedView } from "../side/memory";
import { ReadingView } from "./reading";
import type { RunRecord } from "../contract/types";
import type { Item } from "../run/rows";
import { Run } from "../run/run";
import { follow } from "../run/stream";
import { TodoView } from "./todo";
import { TraceView } from "./trace";
import { word } from "../base/words";

export interface TurnHandlers {
  // After every change.
  onChange: (turn: Turn) => void;
  // When something that the answer cites is asked for.
  onOpen: (turn: Turn, item: Item) => void;
  // When a reading is changed or an option of a question back is chosen.
  onAsk: (question: string) => void;
  // When something of memory is to be seen.
  onRemembered: (id: string) => void;
}

export class Turn {
  readonly run: Run;
  readonly trace: TraceView;
  readonly todo: TodoView;
  readonly answer: AnswerView;
  readonly reading: ReadingView;
  readonly used: UsedView;
  readonly after = el("div", { class: "after" });
  readonly root: HTMLElement;
  readonly handlers: TurnHandlers;
  stream: { close: () => void } | null = null;
  #clock: ReturnType<typeof setInterval> | undefined;
  #frame = 0;

  constructor(question: string, runId: string, handlers: TurnHandlers) {
    this.run = new Run(runId, question);
    this.handlers = handlers;
    this.trace = new TraceView(this.run, () => this.stop(), () => void this.resume());
    this.todo = new TodoView(this.run);
    this.answer = new AnswerView(this.run, (item) => handlers.onOpen(this, item));
    this.reading = new ReadingView(this.run, handlers.onAsk);
    this.used = new UsedView(this.run, handlers.onRemembered);
    this.root = el("article", { class: "turn", data: { run: runId } },
      el("h2", { class: "asked" }, question), this.trace.root, this.todo.root, this.reading.root, this.answer.root,
      this.used.root, this.after);
  }

  // Follows the run from its first event; safe for runs of any age that the planner still streams.
  follow(): this {
    clearInterval(this.#clock);
    this.#clock = setInterval(() => this.trace.tick(), 1000);
    this.stream = follow(this.run.id, this.run.last, {
      onEvent: (event) => { if (this.run.apply(event)) this.#changed(); },
      onRecord: (record) => this.load(record),
      onFailure: (failure) => { this.run.lose(failure); this.#changed(); },
      onWaiting: (waiting) => { this.#wait(waiting); },
    });
    this.trace.tick();
    return this;
  }

  // Says that the connection is lost, or nothing any more.
  #wait(isWaiting: boolean): void {
    const note = isWaiting ? word("reconnecting") : "";
    if (note === this.trace.note) return;
    this.trace.note = note;
    this.trace.tick();
  }

  // Shows a run that is over from its record.
  load(record: RunRecord): this {
    this.run.load(record);
    this.#changed();
    return this;
  }

  stop(): void {
    if (this.run.over) return;
    this.trace.stop.disabled = true;
    post(path("runs", this.run.id, "stop")).catch((thrown: unknown) => {
      this.trace.stop.disabled = false;
      this.trace.note = asProblem(thrown).message;
      this.trace.tick();
    });
  }

  // Goes on after an end without an answer; further events follow those that are there.
  async resume(): Promise<void> {
    this.trace.resume.disabled = true;
    try {
      await post(path("runs", this.run.id, "resume"));
      this.after.replaceChildren();
      this.stream?.close();
      this.follow();
    } catch (thrown) {
      const problem = asProblem(thrown);
      announce(problem.message);
      this.after.replaceChildren(el("p", {}, el("span", { class: "chip bad", role: "alert" }, problem.message)));
    } finally {
      this.trace.resume.disabled = this.trace.stop.disabled = false;
    }
  }

  leave(): void {
    clearInterval(this.#clock);
    cancelAnimationFrame(this.#frame);
    this.stream?.close();
  }

  #changed(): void {
    this.#frame ||= requestAnimationFrame(() => { this.#frame = 0; this.draw(); });
  }

  draw(): void {
    const { run } = this;
    this.trace.update();
    this.todo.update();
    this.reading.update();
    this.answer.update();
    this.used.update();
    if (!run.over && run.intent) announce(run.intent);
    if (run.over) {
      clearInterval(this.#clock);
      this.#conclude();
      announce(word(run.state));
    }
    this.handlers.onChange(this);
  }

  // Draws again what carries words of the page itself, after a change of its language.
  translate(): void {
    this.trace.tick();
    this.reading.translate();
    this.used.update();
    if (this.run.over) this.#conclude();
  }

  #conclude(): void {
    const { run } = this;
    const parts = [this.#options(), missingChips(run), removedChips(run), uncheckedChip(run), this.#failure(), this.#toolbar()];
    this.after.replaceChildren(...parts.filter((part) => part !== null));
  }

  // The questions that the planner offers where it could not tell which one was meant; null without any.
  #options(): HTMLElement | null {
    const options = this.run.clarification?.options ?? [];
    if (!options.length) return null;
    const choices = options.map((option) =>
      el("li", {}, el("button", { type: "button", class: "example", onclick: () => this.handlers.onAsk(option) }, option)));
    return el("ul", { class: "choices", "aria-label": word("choose") }, choices);
  }

  #failure(): HTMLElement | null {
    const { run } = this;
    if (!run.error && run.text) return null;
    const reason = [run.culprit, run.error || `${word("noAnswer")} (${word(run.state)})`].filter(Boolean);
    const said = run.error.startsWith(`${run.culprit}:`) ? run.error : reason.join(": ");
    return el("p", {}, el("span", { class: "chip bad", role: "alert" }, said));
  }

  #toolbar(): HTMLElement | null {
    const { run } = this;
    if (!run.text) return null;
    const label = run.model === "rules" ? word("rules") : run.model;
    const copy = el("button", { type: "button", class: "quiet", onclick: () => void this.#copy(copy) }, word("copy"));
    const take = exportMenu(run, this.answer.root, (text) => announce(text));
    const judge = (helpful: boolean): HTMLElement => {
      const button = el("button", {
        type: "button", class: "quiet", onclick: () => void this.#judge(helpful, button),
      }, word(helpful ? "helpful" : "unhelpful"));
      return button;
    };
    const spacer = el("span", { class: "spacer" });
    return el("div", { class: "tools" }, copy, take, judge(true), judge(false), spacer, el("span", { class: "badge" }, label));
  }

  async #copy(button: HTMLElement): Promise<void> {
    // With tables and references in place of marks; what the page has, where the server cannot be reached.
    const text = await markdownOf(this.run.id).catch(() => this.run.text);
    const isDone = await navigator.clipboard.writeText(text).then(() => true, () => false);
    button.textContent = word(isDone ? "copied" : "noClipboard");
  }

  async #judge(helpful: boolean, button: HTMLElement): Promise<void> {
    try {
      await post(path("runs", this.run.id, "feedback"), { helpful });
      button.parentElement?.querySelectorAll("[aria-pressed]").forEach((other) => other.removeAttribute("aria-pressed"));
      button.setAttribute("aria-pressed", "true");
      announce(word("thanks"));
    } catch (thrown) {
      announce(asProblem(thrown).message);
    }
  }
}
