// What the reader is at: one conversation with its turns, and the questions that are asked in it.
import type { QueryClient } from "@tanstack/react-query";

import { Problem, asProblem, call, path, post } from "../base/api";
import { KEYS, insist, readRun } from "../base/queries";
import { Store } from "../base/store";
import { word } from "../base/words";
import type { Accepted, Turns } from "../contract/types";
import type { Uploads } from "../composer/uploads";
import { Turn } from "../turn/turn";
import { readPlace, writePlace } from "./place";
import type { Unlisted } from "./unlisted";

// What the question says of the reader is learnt behind the answer.
const LEARNT_MS = 2000;

// What is chosen beside the question.
export interface Choice {
  model: string;
  mode: string;
  effort: string;
  window: string;
}

export class Session extends Store {
  readonly #queries: QueryClient;
  readonly #uploads: Uploads;
  readonly #unlisted: Unlisted;
  conversation = "";
  turns: Turn[] = [];
  problem = "";
  isSending = false;
  // Whether the turns of a conversation are being read.
  isOpening = false;
  // The turn whose material the panel shows; the last one unless the reader has turned to another.
  inspected: Turn | null = null;
  // The turn to bring into sight, when it is drawn.
  arriving: Turn | null = null;
  choice: Choice = { model: "", mode: "research", effort: "standard", window: "" };
  // Counts what the reader turned to: an answer that comes after he turned elsewhere is not shown.
  #visit = 0;

  constructor(queries: QueryClient, uploads: Uploads, unlisted: Unlisted) {
    super();
    this.#queries = queries;
    this.#uploads = uploads;
    this.#unlisted = unlisted;
    uploads.onProblem = (text) => this.complain(text);
  }

  get running(): Turn | undefined { return this.turns.findLast((turn) => !turn.run.over); }

  complain(text: string): void {
    if (text === this.problem) return;
    this.problem = text;
    this.changed();
  }

  inspect(turn: Turn): void {
    this.inspected = turn;
    this.changed();
  }

  fresh(): void {
    this.#visit += 1;
    for (const turn of this.turns) turn.leave();
    this.turns = [];
    this.inspected = this.arriving = null;
    this.isOpening = false;
    this.problem = "";
    this.#uploads.clear();
    this.#locate("", "");
    this.changed();
  }

  // Asks a question in the conversation; returns whether it was taken.
  async ask(question: string): Promise<boolean> {
    if (this.isSending) return false;
    const visit = this.#visit;
    this.isSending = true;
    this.problem = "";
    this.changed();
    try {
      await this.#uploads.settled;
      if (visit !== this.#visit) return false;
      const body = {
        question, conversation_id: this.conversation, ...this.choice, table_ids: this.#uploads.ids, corpora: this.#uploads.corpora,
      };
      const accepted = await post<Accepted>(path("runs"), body);
      this.#unlisted.add(accepted.conversation_id, question, accepted.run_id);
      if (visit !== this.#visit) {
        void this.#queries.invalidateQueries({ queryKey: KEYS.conversations });
        return true;
      }
      this.#locate(accepted.conversation_id || this.conversation, accepted.run_id);
      this.arriving = this.#add(question, accepted.run_id).follow();
      return true;
    } catch (thrown) {
      const problem = asProblem(thrown);
      this.problem = problem.culprit ? `${problem.culprit}: ${problem.message}` : problem.message;
      return false;
    } finally {
      this.isSending = false;
      this.changed();
    }
  }

  // Shows a conversation; each turn's run brings what its answer refers to.
  async open(id: string): Promise<void> {
    this.fresh();
    const visit = this.#visit;
    const isWanted = (): boolean => visit === this.#visit;
    this.#locate(id, "");
    try {
      const first = this.#unlisted.find(id);
      if (first) return await this.#recall(this.#add(first.title, first.run), "", isWanted);
      await this.#read(id, isWanted);
    } catch (thrown) {
      if (isWanted()) this.complain(asProblem(thrown).message);
    } finally {
      if (isWanted()) this.#opened();
    }
  }

  // After a reload: the conversation's turns, then the run that may still be going on.
  async resume(): Promise<void> {
    const place = readPlace();
    if (!place.conversation && !place.run) return;
    const visit = this.#visit;
    const isWanted = (): boolean => visit === this.#visit;
    this.conversation = place.conversation;
    try {
      if (place.conversation) await this.#read(place.conversation, isWanted).catch(passOverAbsence);
      if (!isWanted() || !place.run || this.turns.some((turn) => turn.run.id === place.run)) return;
      const record = await insist(() => readRun(place.run), isWanted, (thrown) => this.#wait(thrown));
      if (!isWanted()) return;
      this.#locate(place.conversation, place.run);
      const turn = this.#add(record.trajectory?.question ?? "", place.run);
      if (record.running) turn.follow();
      else turn.load(record);
    } catch (thrown) {
      if (isWanted()) this.complain(asProblem(thrown).message);
    } finally {
      if (isWanted()) this.#opened();
    }
  }

  #opened(): void {
    this.isOpening = false;
    this.changed();
  }

  // Says that the gateway is away, until it answers.
  #wait(thrown: unknown): void {
    const problem = asProblem(thrown);
    this.complain(`${word("reconnecting")} ${problem.culprit || problem.message}`);
  }

  async #read(id: string, isWanted: () => boolean): Promise<void> {
    this.isOpening = true;
    this.changed();
    const turns = await insist(() => readTurns(id), isWanted, (thrown) => this.#wait(thrown));
    if (!isWanted()) return;
    this.problem = "";
    const shown = turns.map((turn): [typeof turn, Turn] => [turn, this.#add(turn.question, turn.run_id)]);
    this.isOpening = false;
    this.arriving = this.turns.at(-1) ?? null;
    this.changed();
    // The newest first: it is in sight.
    for (const [turn, view] of shown.reverse()) {
      await this.#recall(view, turn.answer, isWanted);
      if (!isWanted()) return;
    }
  }

  // A turn from its run's record; without the record, the answer as memory has it.
  async #recall(view: Turn, answer: string, isWanted: () => boolean): Promise<void> {
    try {
      const record = await insist(() => readRun(view.run.id), isWanted, () => {});
      if (!isWanted()) return;
      if (record.running) view.follow();
      else view.load(record);
    } catch {
      if (isWanted()) view.quote(answer);
    }
  }

  #add(question: string, runId: string): Turn {
    const turn = new Turn(question, runId, (changed) => this.#follow(changed));
    this.turns = [...this.turns, turn];
    this.inspected = turn;
    this.changed();
    return turn;
  }

  #follow(turn: Turn): void {
    if (turn !== this.turns.at(-1) && !turn.isFollowed) return;
    if (turn === this.turns.at(-1) && turn.run.conversation) this.#locate(turn.run.conversation, turn.run.id);
    if (turn.run.over && turn.isFollowed) {
      turn.isFollowed = false;
      this.#unlisted.remove(turn.run.conversation);
      void this.#queries.invalidateQueries({ queryKey: KEYS.conversations });
      setTimeout(() => void this.#queries.invalidateQueries({ queryKey: KEYS.facts }), LEARNT_MS);
    }
    this.changed();
  }

  #locate(conversation: string, run: string): void {
    this.conversation = conversation;
    writePlace({ conversation, run });
  }
}

// A conversation is not there before its first run has ended.
function passOverAbsence(thrown: unknown): void {
  if (!(thrown instanceof Problem) || thrown.status !== 404) throw thrown;
}

// All turns of a conversation, page by page.
async function readTurns(id: string): Promise<Turns["turns"]> {
  const turns: Turns["turns"] = [];
  let next = "";
  do {
    const found: Turns = await call(`${path("conversations", id)}?${new URLSearchParams({ page_token: next })}`);
    turns.push(...found.turns);
    next = found.next_page_token;
  } while (next);
  return turns;
}
