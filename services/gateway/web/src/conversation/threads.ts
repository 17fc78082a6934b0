// A conversation as memory has it: a tree, since a question may be asked again or otherwise, or follow an earlier turn.
// The page shows one way through it at a time. Pure: tested under node.
import type { Turns } from "../contract/types";

export type KnownTurn = Turns["turns"][number];

export class Threads {
  // By their numbers.
  #turns = new Map<number, KnownTurn>();

  clear(): void { this.#turns.clear(); }

  take(turns: KnownTurn[]): void {
    for (const turn of turns) this.#turns.set(turn.number, turn);
  }

  get newest(): number { return Math.max(0, ...this.#turns.keys()); }

  find(run: string): KnownTurn | undefined { return [...this.#turns.values()].find((turn) => turn.run_id === run); }

  // The turn that one follows, 0 for none. One that is gone is as if it had never been there.
  parentOf(turn: KnownTurn): number {
    const parent = turn.parent ?? turn.number - 1;
    return this.#turns.has(parent) && parent < turn.number ? parent : 0;
  }

  // The turns that lead to one, and it, oldest first.
  pathTo(number: number): KnownTurn[] {
    const path: KnownTurn[] = [];
    for (let turn = this.#turns.get(number); turn; turn = this.#turns.get(this.parentOf(turn))) path.unshift(turn);
    return path;
  }

  // Those that follow the same turn, in the order in which they were asked.
  versionsOf(turn: KnownTurn): KnownTurn[] { return this.#after(this.parentOf(turn)); }

  hasFollowers(number: number): boolean { return this.#after(number).length > 0; }

  // The newest turn to which one leads.
  newestAfter(number: number): number {
    const reached = new Set([number]);
    for (const turn of this.#ordered()) if (reached.has(this.parentOf(turn))) reached.add(turn.number);
    return Math.max(...reached);
  }

  #after(parent: number): KnownTurn[] { return this.#ordered().filter((turn) => this.parentOf(turn) === parent); }

  #ordered(): KnownTurn[] { return [...this.#turns.values()].sort((one, other) => one.number - other.number); }
}
