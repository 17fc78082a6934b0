// How the question was read, as chips above the answer. A chip that is clicked becomes a field: Enter asks the question
// anew with its words in the place of the old ones, Escape leaves it as it was.
import { el } from "../base/dom";
import type { Reading, Slot } from "../contract/types";
import type { Run } from "../run/run";
import { distinct, meaningOf, reworded, stateOf } from "../run/slots";
import { word } from "../base/words";

export class ReadingView {
  // `onAsk(question)` when a slot was given other words.
  readonly root = el("div", { class: "gaps reading", role: "group", hidden: true });
  readonly #run: Run;
  readonly #onAsk: (question: string) => void;
  #drawn: Reading | null = null;

  constructor(run: Run, onAsk: (question: string) => void) {
    this.#run = run;
    this.#onAsk = onAsk;
  }

  update(): void {
    const { reading } = this.#run;
    this.root.hidden = !reading?.slots.length;
    if (!reading?.slots.length || this.#drawn === reading) return;
    this.#drawn = reading;
    this.root.setAttribute("aria-label", reading.line || word("readAs"));
    const chips = distinct(reading.slots).map((slot) => el("li", {}, this.#chip(reading, slot)));
    this.root.replaceChildren(el("span", { class: "dim" }, `${word("readAs")}${word("colon")}`), el("ul", {}, chips));
  }

  // Draws the chips again, in the page's language.
  translate(): void {
    this.#drawn = null;
    this.update();
  }

  #chip(reading: Reading, slot: Slot): HTMLElement {
    const state = stateOf(slot);
    const why = [word(`slot_${state}`), slot.detail].filter(Boolean).join(": ");
    const meaning = meaningOf(slot);
    const said = meaning ? `${slot.text} (${meaning})` : slot.text;
    const button: HTMLElement = el("button", {
      type: "button", class: `chip slot ${state === "open" ? "warn" : state}`, title: `${why} · ${word("changeSlot")}`,
      data: { state }, "aria-label": `${said}: ${why}. ${word("changeSlot")}`,
      onclick: () => this.#edit(reading, slot, button),
    }, state === "open" ? `⚠ ${slot.text}` : slot.text, meaning ? el("small", {}, ` ${meaning}`) : null);
    return button;
  }

  #edit(reading: Reading, slot: Slot, button: HTMLElement): void {
    let isLeft = false;
    // Once: a browser blurs a field that is taken away, and calls this again.
    const leave = (isFocused: boolean): void => {
      if (isLeft) return;
      isLeft = true;
      field.replaceWith(button);
      if (isFocused) button.focus();
    };
    const field = el("input", {
      class: "slot", value: slot.text, size: Math.max(6, [...slot.text].length + 4), "aria-label": `${word("slotFor")} ${slot.text}`,
      onkeydown: (event: KeyboardEvent) => {
        if (event.isComposing) return;
        if (event.key === "Escape") {
          event.stopPropagation(); // on the page it stops the run
          leave(true);
        } else if (event.key === "Enter") {
          event.preventDefault();
          const words = field.value.trim();
          leave(true);
          if (words && words !== slot.text) this.#onAsk(reworded(reading.question, slot, words));
        }
      },
      onblur: () => leave(false),
    });
    button.replaceWith(field);
    field.focus();
    field.select();
  }
}
