// The reviewer's place at one queue: the item that he is at, and what became of it.
import { announce } from "../../base/announce";
import { type Problem, asProblem } from "../../base/api";
import { Store } from "../../base/store";
import type { ReviewItem } from "../../contract/types";
import { say } from "../words";
import { type Kind, type Said, decide, takeBack, takeNext } from "./items";

// An item is read, open, decided, or lost to another; or there is none, or none could be read.
export type DeskState = "reading" | "open" | "decided" | "lost" | "empty" | "failed";

export class Desk extends Store {
  readonly kind: Kind;
  readonly #onDecided: () => void;
  state: DeskState = "reading";
  item: ReviewItem | null = null;
  problem: Problem | null = null;
  // Whether a decision is on its way: it is sent once.
  isBusy = false;
  // Counts what was asked for: an answer to an earlier wish is not shown.
  #wish = 0;

  constructor(kind: Kind, onDecided: () => void) {
    super();
    this.kind = kind;
    this.#onDecided = onDecided;
  }

  async next(after = ""): Promise<void> {
    const wish = (this.#wish += 1);
    this.#become("reading");
    try {
      const item = await takeNext(this.kind, after);
      if (wish !== this.#wish) return;
      this.item = item;
      this.#become(item ? "open" : "empty");
      announce(item ? item.question : say("noItems"));
    } catch (thrown) {
      if (wish !== this.#wish) return;
      this.problem = asProblem(thrown);
      this.#become("failed");
    }
  }

  skip(): Promise<void> {
    const { id } = this.item!;
    return this.next(id).then(() => {
      if (this.state === "empty") announce(say("skipped"));
    });
  }

  decide(said: Said): Promise<void> {
    return this.#act(() => decide(this.item!, said), "decided", say("decidedTitle"));
  }

  undo(): Promise<void> {
    return this.#act(() => takeBack(this.item!), "open", say("undone"));
  }

  async #act(ask: () => Promise<ReviewItem>, then: DeskState, spoken: string): Promise<void> {
    if (this.isBusy) return;
    const wish = this.#wish;
    this.isBusy = true;
    this.problem = null;
    this.changed();
    try {
      const item = await ask();
      this.#onDecided();
      if (wish !== this.#wish) return;
      this.item = item;
      this.#become(then);
      announce(spoken);
    } catch (thrown) {
      if (wish !== this.#wish) return;
      this.problem = asProblem(thrown);
      // What was decided stays decided where it can no longer be taken back.
      if (then === "decided" && (this.problem.status === 409 || this.problem.status === 404)) this.#become("lost");
    } finally {
      this.isBusy = false;
      this.changed();
    }
  }

  #become(state: DeskState): void {
    this.state = state;
    if (state !== "lost" && state !== "failed") this.problem = null;
    this.changed();
  }
}
