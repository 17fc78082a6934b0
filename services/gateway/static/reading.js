// How the question was read, as chips above the answer. Clicking one puts the question into the composer with its words
// selected: the next keystrokes change them, Enter asks again.
import { el } from "/static/dom.js";
import { word } from "/static/words.js";

const STATES = { SLOT_STATE_FILLED: "filled", SLOT_STATE_OPEN: "open", SLOT_STATE_UNSURE: "unsure" };
export const stateOf = (slot) => STATES[slot.state] ?? "unsure";

// The question with the place of a slot's words, in the units of JavaScript's strings; the contract counts code points.
// What the model stated stands nowhere in the question and is added behind it.
export function placed(question, slot) {
  const points = [...question];
  const [first, last] = [slot.start ?? 0, slot.end ?? 0];
  if (last <= first || last > points.length) {
    const text = `${question} (${slot.text})`;
    return { text, start: text.length - slot.text.length - 1, end: text.length - 1 };
  }
  const start = points.slice(0, first).join("").length;
  return { text: question, start, end: start + points.slice(first, last).join("").length };
}

export class ReadingView {
  // `onEdit({text, start, end})` when a chip is clicked.
  constructor(run, onEdit) {
    this.run = run;
    this.onEdit = onEdit;
    this.root = el("div", { class: "gaps reading", role: "list", hidden: true });
  }

  update() {
    const { reading } = this.run;
    this.root.hidden = !reading?.slots?.length;
    if (this.root.hidden || this.drawn === reading) return;
    this.drawn = reading;
    this.root.setAttribute("aria-label", reading.line ?? "");
    this.root.replaceChildren(el("span", { class: "dim" }, word("readAs")), ...reading.slots.map((slot) => this.#chip(reading, slot)));
  }

  #chip(reading, slot) {
    const state = stateOf(slot);
    const why = [word(`slot_${state}`), slot.detail].filter(Boolean).join(": ");
    const button = el("button", {
      type: "button", class: `chip slot ${state === "open" ? "warn" : state}`, title: `${why} · ${word("changeSlot")}`,
      data: { state }, "aria-label": `${slot.text}: ${why}. ${word("changeSlot")}`,
      onclick: () => this.onEdit(placed(reading.question, slot)),
    }, state === "open" ? `⚠ ${slot.text}` : slot.text);
    return el("span", { role: "listitem" }, button);
  }
}
