// The choices beside the question: the agent, the fixed pipeline or the one that fits; and how much effort.
import { byId, el } from "../base/dom";
import { remember, remembered, word } from "../base/words";

// The default first.
const CHOICES: Record<string, string[]> = { mode: ["research", "workflow", "auto"], effort: ["standard", "quick", "deep"] };

export class Choices {
  // `preferred` tells what memory knows that the reader prefers: it is behind what he has chosen on this page.
  readonly #preferred: (id: string) => string;
  readonly #touched: Record<string, string> = {};

  constructor(preferred: (id: string) => string) {
    this.#preferred = preferred;
  }

  listen(): void {
    for (const id of Object.keys(CHOICES)) {
      const select = byId<HTMLSelectElement>(id);
      select.addEventListener("change", () => {
        this.#touched[id] = select.value;
        remember(id, select.value);
      });
    }
  }

  show(): void {
    for (const [id, names] of Object.entries(CHOICES)) {
      const kept = this.#touched[id] || remembered(id) || this.#preferred(id) || names[0];
      byId(id).replaceChildren(...names.map((name) => el("option", {
        value: name, selected: name === kept, title: word(`${id}_${name}_note`),
      }, word(`${id}_${name}`))));
    }
  }
}
