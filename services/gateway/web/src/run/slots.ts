// What a question was read as, one slot at a time. Pure: tested under node.

import type { Slot } from "../contract/types";

export type SlotState = "filled" | "open" | "unsure";

const STATES: Record<string, SlotState> = { SLOT_STATE_FILLED: "filled", SLOT_STATE_OPEN: "open", SLOT_STATE_UNSURE: "unsure" };
export const stateOf = (slot: Slot): SlotState => STATES[slot.state] ?? "unsure";

// The question with other words for a slot; the contract counts code points. What the model stated stands nowhere in
// the question and is added behind it.
export function reworded(question: string, slot: Pick<Slot, "start" | "end">, words: string): string {
  const points = [...question];
  const [first, last] = [slot.start ?? 0, slot.end ?? 0];
  if (last <= first || last > points.length) return `${question} (${words})`;
  return [...points.slice(0, first), words, ...points.slice(last)].join("");
}

// The meaning of a slot where it says more than its words do, e.g. AAPL for Apple; "" otherwise.
export function meaningOf(slot: Slot): string {
  const value = slot.value ?? "";
  if (slot.kind === "MENTION_KIND_PERIOD") {
    const [first = "", last] = value.split("/");
    const shown = !last || first === last ? first : `${first} – ${last}`;
    return shown === slot.text ? "" : shown.replaceAll("..", "…");
  }
  const isNamed = slot.kind === "MENTION_KIND_ENTITY" || slot.kind === "MENTION_KIND_INDICATOR";
  return isNamed && value.toLowerCase() !== slot.text.toLowerCase() ? value : "";
}

// Slots at the same words, such as a measure that is an output too, as one with the most doubtful state.
export function distinct(slots: Slot[]): Slot[] {
  const order = ["open", "unsure", "filled"];
  const found = new Map<string, Slot>();
  for (const slot of slots) {
    const key = `${slot.start}:${slot.end}:${slot.text}`;
    const known = found.get(key);
    if (!known || order.indexOf(stateOf(slot)) < order.indexOf(stateOf(known))) found.set(key, slot);
  }
  return [...found.values()];
}
