// What the reader is at: one conversation with its turns, and the questions that are asked in it.
import type { QueryClient } from "@tanstack/react-query";

import { asProblem } from "../base/api";
import { KEYS, insist, readRun } from "../base/queries";
import { Store } from "../base/store";
import { word } from "../base/words";
import type { Uploads } from "../composer/uploads";
import type { Outbox } from "../connection/outbox";
import { Turn } from "../turn/turn";
import { type Place, isElsewhere, readPlace, writePlace } from "./place";
import { type KnownTurn, Threads } from "./threads";
import { passOverAbsence, readNewestTurns, readTurns, recallTurn } from "./turns";
import type { Unlisted } from "./unlisted";

// What the question says of the reader is learnt behind the answer.
const LEARNT_MS = 2000;

export class Session extends Store {
  readonly #queries: QueryClient;
  readonly #uploads: Uploads;
  readonly #unlisted: Unlisted;
  readonly #outbox: Outbox;
  readonly #threads = new Threads();
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
  // What is chosen beside the question.
  choice = { model: "", mode: "research", effort: "standard", window: "", sources_off: [] as string[] };
  // Counts what the reader turned to: an answer that comes after he turned elsewhere is not shown.
  #visit = 0;
  // The turn that the running question follows, where it is not the newest.
  #after: number | null = null;
  // Whether turns behind what is shown may be unknown: they are read before the next question.
  #isUnread = false;

  constructor(queries: QueryClient, uploads: Uploads, unlisted: Unlisted, outbox: Outbox) {
    super();
    [this.#queries, this.#uploads, this.#unlisted, this.#outbox] = [queries, uploads, unlisted, outbox];
    uploads.onProblem = (text) => this.complain(text);
  }

  get running(): Turn | undefined { return this.turns.findLast((turn) => !turn.run.over); }

  complain(text: string): void { if (text !== this.problem) { this.problem = text; this.changed(); } }

  inspect(turn: Turn): void { this.inspected = turn; this.changed(); }

  fresh(): void {
    this.#visit += 1;
    this.#outbox.takeBack();
    for (const turn of this.turns) turn.leave();
    this.turns = [];
    this.#threads.clear();
    this.#isUnread = false;
    this.inspected = this.arriving = null;
    [this.isOpening, this.problem] = [false, ""];
    this.#uploads.clear();
    this.#locate("", "");
    this.changed();
  }

  // Asks a question behind what is shown, or in the place of a turn that is shown; returns whether it was taken.
  async ask(question: string, instead: Turn | null = null): Promise<boolean> {
    if (this.isSending) return false;
    const visit = this.#visit;
    this.isSending = true;
    this.problem = "";
    this.changed();
    try {
      await this.#uploads.settled;
      if (visit !== this.#visit) return false;
      const after = await this.#findParent(instead);
      if (visit !== this.#visit) return false;
      const accepted = await this.#outbox.send(question, this.#describe(question, after));
      if (!accepted) return false;
      this.#unlisted.add(accepted.conversation_id, question, accepted.run_id);
      if (visit !== this.#visit) {
        void this.#queries.invalidateQueries({ queryKey: KEYS.conversations });
        return true;
      }
      if (instead) this.#cut(this.turns.indexOf(instead));
      this.#locate(accepted.conversation_id || this.conversation, accepted.run_id, after);
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

  #describe(question: string, after: number | null): object {
    return {
      ...(after !== null && { parent_turn: after }), question, conversation_id: this.conversation, ...this.choice, table_ids: this.#uploads.ids, corpora: this.#uploads.corpora,
    };
  }

  // The question of a turn as it would be asked again now, in the turn's place.
  async describeAgain(turn: Turn): Promise<object> {
    await this.#uploads.settled;
    return this.#describe(turn.run.question, await this.#findParent(turn));
  }

  // Shows a conversation; each turn's run brings what its answer refers to.
  async open(id: string): Promise<void> {
    this.fresh();
    const visit = this.#visit;
    const isWanted = (): boolean => visit === this.#visit;
    this.#locate(id, "");
    try {
      const first = this.#unlisted.find(id);
      if (first) return await recallTurn(this.#add(first.title, first.run), "", isWanted);
      await this.#read(id, isWanted);
    } catch (thrown) {
      if (isWanted()) this.complain(asProblem(thrown).message);
    } finally {
      if (isWanted()) this.#opened();
    }
  }

  // What the address has been changed to by the reader: another conversation, or a run.
  async turnToAddress(): Promise<void> {
    const place = readPlace();
    const isHere = place.conversation === this.conversation && (!place.run || this.turns.some((turn) => turn.run.id === place.run));
    if (!isHere && !isElsewhere()) await this.#goTo(place);
  }

  // After a reload: the conversation's turns, then the run that may still be going on.
  async resume(): Promise<void> {
    const place = readPlace();
    if (!place.conversation && !place.run) return;
    const visit = this.#visit;
    const isWanted = (): boolean => visit === this.#visit;
    this.conversation = place.conversation;
    try {
      if (place.conversation) await this.#read(place.conversation, isWanted, place).catch(passOverAbsence);
      if (!isWanted() || !place.run || this.turns.some((turn) => turn.run.id === place.run)) return;
      const record = await insist(() => readRun(place.run), isWanted, (thrown) => this.#wait(thrown));
      if (!isWanted()) return;
      // A run of another conversation than the address says is shown there, and what is asked next follows it.
      const own = record.conversation_id;
      if (own && own !== place.conversation) return await this.#goTo({ conversation: own, run: place.run, after: "" });
      this.#locate(place.conversation, place.run, place.after ? Number(place.after) : null);
      const turn = this.#add(record.trajectory?.question ?? "", place.run);
      if (record.running) turn.follow();
      else turn.load(record);
    } catch (thrown) {
      if (isWanted()) this.complain(asProblem(thrown).message);
    } finally {
      if (isWanted()) this.#opened();
    }
  }

  async #goTo(place: Place): Promise<void> {
    this.fresh();
    writePlace(place);
    await this.resume();
  }

  #opened(): void { this.isOpening = false; this.changed(); }

  // Says what is away behind the gateway, until it answers; that the gateway itself is away is said once for the page.
  #wait(thrown: unknown): void {
    const { status, culprit, message } = asProblem(thrown);
    if (status) this.complain(`${word("reconnecting")} ${culprit || message}`);
  }

  // Shows the way to the newest turn, or to the one that the reader was at.
  async #read(id: string, isWanted: () => boolean, place = { run: "", after: "" }): Promise<void> {
    this.isOpening = true;
    this.changed();
    const turns = await insist(() => readTurns(this.#queries, id), isWanted, (thrown) => this.#wait(thrown));
    if (!isWanted()) return;
    this.problem = "";
    this.#threads.take(turns);
    this.isOpening = false;
    const at = this.#threads.find(place.run)?.number ?? (place.after === "" ? this.#threads.newest : Number(place.after));
    await this.#show(this.#threads.pathTo(at), isWanted);
  }

  // Shows these turns in the place of those that are shown; what is on the page already stays as it is.
  async #show(path: KnownTurn[], isWanted: () => boolean): Promise<void> {
    const start = this.turns.findIndex((turn, place) => turn.run.id !== path[place]?.run_id);
    this.#cut(start < 0 ? this.turns.length : start);
    const shown = path.slice(this.turns.length).map((turn): [KnownTurn, Turn] => [turn, this.#add(turn.question, turn.run_id)]);
    this.arriving = shown[0] && start > 0 ? shown[0][1] : this.turns.at(-1) ?? null;
    this.changed();
    // The newest first: it is in sight.
    for (const [turn, view] of shown.reverse()) {
      await recallTurn(view, turn.answer, isWanted);
      if (!isWanted()) return;
    }
  }

  // The versions of a turn's question, oldest first, as their runs; a question that was asked once has one.
  versionsOf(turn: Turn): string[] {
    const known = this.#threads.find(turn.run.id);
    return known ? this.#threads.versionsOf(known).map((version) => version.run_id) : [turn.run.id];
  }

  // Whether the conversation has turns behind those that are shown.
  get hasMore(): boolean {
    const last = this.#threads.find(this.turns.at(-1)?.run.id ?? "");
    return last !== undefined && this.#threads.hasFollowers(last.number);
  }

  // Shows the way through a turn, to the newest to which it leads.
  async turnTo(run: string): Promise<void> {
    const known = this.#threads.find(run);
    if (!known) return;
    const visit = (this.#visit += 1);
    const path = this.#threads.pathTo(this.#threads.newestAfter(known.number));
    this.#locate(this.conversation, path.at(-1)?.run_id ?? "");
    await this.#show(path, () => visit === this.#visit);
  }

  // Goes on from a turn: those behind it are no longer shown, and the next question follows it.
  async branch(turn: Turn): Promise<void> {
    // At once, so that a question which is asked meanwhile follows it too.
    this.#cut(this.turns.indexOf(turn) + 1);
    this.#locate(this.conversation, turn.run.id);
    this.#isUnread = true;
    this.changed();
    await this.#learn();
  }

  #cut(length: number): void {
    for (const turn of this.turns.slice(length)) turn.leave();
    this.turns = this.turns.slice(0, length);
    if (this.inspected && !this.turns.includes(this.inspected)) this.inspected = this.turns.at(-1) ?? null;
  }

  // The number of the turn that the next question follows; null leaves it to memory, whose newest turn it is.
  async #findParent(instead: Turn | null): Promise<number | null> {
    if (!this.conversation) return null;
    if (instead || this.#isUnread) await this.#learn();
    // Without memory's word it is the newest turn, as it is but after a branch, whose turns are known.
    else if (this.turns.some((turn) => turn.run.over && !this.#threads.find(turn.run.id))) await this.#learn().catch(() => {});
    if (instead) {
      const known = this.#threads.find(instead.run.id);
      if (known) return this.#threads.parentOf(known);
      const before = this.turns[this.turns.indexOf(instead) - 1];
      return before ? this.#threads.find(before.run.id)?.number ?? null : 0;
    }
    // A run that failed is no turn: what comes next follows what it followed.
    const known = this.turns.map((turn) => this.#threads.find(turn.run.id)).findLast(Boolean);
    return known && known.number !== this.#threads.newest ? known.number : null;
  }

  // Reads the newest turns: those that were asked on this page have their numbers from memory.
  async #learn(): Promise<void> {
    const { conversation } = this;
    if (!conversation) return;
    const found = await readNewestTurns(this.#queries, conversation);
    if (conversation !== this.conversation) return;
    this.#threads.take(found);
    this.#isUnread = false;
    this.changed();
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
    if (turn === this.turns.at(-1) && turn.run.conversation) this.#locate(turn.run.conversation, turn.run.id, turn.run.over ? null : this.#after);
    if (turn.run.over && turn.isFollowed) {
      turn.isFollowed = false;
      this.#unlisted.remove(turn.run.conversation);
      void this.#queries.invalidateQueries({ queryKey: KEYS.conversations });
      // Without it nothing is lost: it is read again before it is needed.
      void this.#learn().catch(() => {});
      setTimeout(() => void this.#queries.invalidateQueries({ queryKey: KEYS.facts }), LEARNT_MS);
    }
    this.changed();
  }

  #locate(conversation: string, run: string, after: number | null = null): void {
    this.conversation = conversation;
    this.#after = after;
    writePlace({ conversation, run, after: after === null ? "" : String(after) });
  }
}
