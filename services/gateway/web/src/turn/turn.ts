// One turn of the thread: the run, how it is followed, and what the reader does to it.
import { Problem, asProblem, call, path, post, put } from "../base/api";
import { announce } from "../base/announce";
import { makeRequestId } from "../base/ids";
import { Store } from "../base/store";
import { word } from "../base/words";
import type { RunRecord, StoredPlan, TodoItem } from "../contract/types";
import { Run } from "../run/run";
import { follow } from "../run/stream";

const TICK_MS = 1000;

// What a plan becomes; null where what is edited is not in it any more.
export type PlanEdit = (items: TodoItem[]) => TodoItem[] | null;

export class Turn extends Store {
  readonly run: Run;
  // Why what the reader wanted of the run was not done.
  problem = "";
  todoProblem = "";
  isWaiting = false;
  isBusy = false;
  // Whether the run was followed on this page, so that its end is news.
  isFollowed = false;
  #stopProblem = "";
  #stream: { close: () => void } | null = null;
  #clock: ReturnType<typeof setInterval> | undefined;
  #frame = 0;
  #planning: Promise<unknown> = Promise.resolve();
  readonly #onChange: (turn: Turn) => void;

  // `onChange(turn)` after every change of the run.
  constructor(question: string, runId: string, onChange: (turn: Turn) => void) {
    super();
    this.run = new Run(runId, question);
    this.#onChange = onChange;
  }

  // What is said in place of the run's own words; "" for nothing.
  get note(): string { return this.#stopProblem || (this.isWaiting ? word("reconnecting") : ""); }

  // Follows the run from the last event that was seen; safe for runs of any age that the planner still streams.
  follow(): this {
    this.isFollowed = true;
    clearInterval(this.#clock);
    this.#clock = setInterval(() => this.changed(), TICK_MS);
    this.#stream?.close();
    this.#stream = follow(this.run.id, this.run.last, {
      onEvent: (event) => { if (this.run.apply(event)) this.#draw(); },
      onRecord: (record) => this.load(record),
      onFailure: (failure) => { this.run.lose(failure); this.#draw(); },
      onWaiting: (isWaiting) => {
        if (isWaiting === this.isWaiting) return;
        this.isWaiting = isWaiting;
        this.changed();
      },
    });
    this.changed();
    return this;
  }

  // Shows a run that is over from its record.
  load(record: RunRecord): this {
    this.run.load(record);
    this.#draw();
    return this;
  }

  // Shows an answer without its record, which is gone.
  quote(answer: string): void {
    Object.assign(this.run, { text: answer, state: "finished" });
    this.#draw();
  }

  async stop(): Promise<void> {
    if (this.run.over || this.isBusy) return;
    this.isBusy = true;
    this.changed();
    try {
      await post(path("runs", this.run.id, "stop"));
    } catch (thrown) {
      this.#stopProblem = asProblem(thrown).message;
      this.isBusy = false;
      this.changed();
    }
  }

  // Goes on after an end without an answer; further events follow those that are there.
  async resume(): Promise<void> {
    this.isBusy = true;
    this.changed();
    try {
      await post(path("runs", this.run.id, "resume"));
      this.problem = this.#stopProblem = "";
      this.follow();
    } catch (thrown) {
      this.problem = asProblem(thrown).message;
      announce(this.problem);
    } finally {
      this.isBusy = false;
      this.changed();
    }
  }

  // Edits the plan, one edit after the other, and says whether the run has taken it. An edit of a plan that has become
  // another one meanwhile is refused: that one is shown, and the edit is to be made again.
  plan(edit: PlanEdit): Promise<boolean> {
    const made = this.#planning.then(() => this.#plan(edit));
    this.#planning = made;
    return made;
  }

  async #plan(edit: PlanEdit): Promise<boolean> {
    const { run } = this;
    const items = edit(run.todo);
    try {
      if (!items) throw new Problem({ status: 409, field: "version" });
      const body = { items, version: run.todoVersion, request_id: makeRequestId("edit") };
      const stored = await put<StoredPlan>(path("runs", run.id, "todo"), body);
      // The same comes as an event; the next edit must not wait for that.
      run.setTodo(stored.items, stored.version);
      this.todoProblem = "";
      return true;
    } catch (thrown) {
      const { status, field, message } = asProblem(thrown);
      const isOutdated = status === 409 && field === "version";
      this.todoProblem = isOutdated ? word("todoOutdated") : message;
      if (items && isOutdated) await this.#readPlan();
      return false;
    } finally {
      this.changed();
    }
  }

  // Events bring every change; after a conflict the plan is read all the same, so that the next edit is not refused too.
  async #readPlan(): Promise<void> {
    const { run } = this;
    const before = run.todoVersion;
    const record = await call<RunRecord>(path("runs", run.id)).catch(() => null);
    if (record?.running && run.todoVersion === before) run.setTodo(record.todo, record.todo_version);
  }

  leave(): void {
    clearInterval(this.#clock);
    cancelAnimationFrame(this.#frame);
    this.#stream?.close();
  }

  // Once a frame, however many events come within it.
  #draw(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const { run } = this;
      if (run.over) {
        clearInterval(this.#clock);
        this.isBusy = false;
        announce(word(run.state));
      } else if (run.intent) announce(run.intent);
      this.changed();
      this.#onChange(this);
    });
  }
}
