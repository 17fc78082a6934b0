// The choices beside the question: the agent, the fixed pipeline or the one that fits; and how much effort.
import { byId, el } from "/static/dom.js";
import { remember, remembered, word } from "/static/words.js";

// The default first.
const CHOICES = { mode: ["research", "workflow", "auto"], effort: ["standard", "quick", "deep"] };

export class Choices {
  // `preferred` tells what memory knows that the reader prefers: it is behind what he has chosen on this page.
  constructor(preferred) {
    this.preferred = preferred;
    this.touched = {};
  }

  listen() {
    for (const id of Object.keys(CHOICES)) byId(id).addEventListener("change", () => {
      this.touched[id] = byId(id).value;
      remember(id, byId(id).value);
    });
  }

  show() {
    for (const [id, names] of Object.entries(CHOICES)) {
      const kept = this.touched[id] || remembered(id) || this.preferred(id) || names[0];
      byId(id).replaceChildren(...names.map((name) => el("option", {
        value: name, selected: name === kept, title: word(`${id}_${name}_note`),
      }, word(`${id}_${name}`))));
    }
  }
}
