// The question that is being sent. While the gateway is away it waits, until it is taken or the reader takes it back.
import { asProblem, path, post } from "../base/api";
import { makeRequestId } from "../base/ids";
import { pause } from "../base/reach";
import { Store } from "../base/store";
import type { Accepted } from "../contract/types";

const PAUSE_MS = 15_000;

export class Outbox extends Store {
  // What waits for the gateway; "" for nothing.
  waiting = "";
  #giveUp: AbortController | null = null;

  // Returns null for a question that was taken back. Its id stays the same, so that one whose acceptance did not reach
  // the page is not asked twice.
  async send(question: string, body: object): Promise<Accepted | null> {
    const [giveUp, described] = [new AbortController(), { ...body, request_id: makeRequestId("run") }];
    this.#giveUp = giveUp;
    try {
      while (!giveUp.signal.aborted) {
        try {
          return await post<Accepted>(path("runs"), described);
        } catch (thrown) {
          // Only an answer that is missing is waited for: a refusal, or a planner that is away, is said at once.
          if (asProblem(thrown).status !== 0) throw thrown;
        }
        this.#wait(question);
        await pause(PAUSE_MS, giveUp.signal);
      }
      return null;
    } finally {
      this.#wait("");
    }
  }

  takeBack(): void { if (this.waiting) this.#giveUp?.abort(); }

  #wait(question: string): void {
    if (question === this.waiting) return;
    this.waiting = question;
    this.changed();
  }
}
