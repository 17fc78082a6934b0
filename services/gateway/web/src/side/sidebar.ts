// Conversations, newest first, grouped by day.
import { call, path } from "../base/api";
import { byId, el } from "../base/dom";
import { language, word } from "../base/words";

const DAY_MS = 86_400_000;

export class Sidebar {
  constructor({ onOpen, onRemoved }) {
    this.onOpen = onOpen;
    this.onRemoved = onRemoved;
    this.items = [];
    this.current = "";
    byId("filter").addEventListener("input", () => this.draw());
  }

  // Reads the list; when it cannot be read, the old one stays.
  async load() {
    try {
      this.items = (await call(path("conversations"))).conversations;
      this.draw();
    } catch (problem) {
      byId("conversations").title = problem.message;
    }
  }

  draw() {
    const wanted = byId("filter").value.trim().toLowerCase();
    const shown = this.items.filter((item) => item.title.toLowerCase().includes(wanted));
    const parts = [];
    let group = "";
    for (const item of shown) {
      const name = dayOf(item.update_time);
      if (name !== group) parts.push(el("h3", {}, name));
      group = name;
      parts.push(this.#entry(item));
    }
    byId("conversations").replaceChildren(...parts);
  }

  #entry(item) {
    const open = el("button", {
      type: "button", class: "open", title: item.title, "aria-current": item.id === this.current ? "true" : null,
      onclick: () => this.onOpen(item.id),
    }, item.title);
    const remove = el("button", {
      type: "button", class: "quiet remove", "aria-label": `${word("remove")}: ${item.title}`,
      onclick: () => this.#remove(item),
    }, "✕");
    return el("div", { class: "entry", data: { conversation: item.id } }, open, remove);
  }

  async #remove(item) {
    if (!confirm(word("confirmRemove"))) return;
    try {
      await call(path("conversations", item.id), { method: "DELETE" });
      this.onRemoved(item.id);
    } catch (problem) {
      byId("conversations").title = problem.message;
    }
    await this.load();
  }
}

function dayOf(time) {
  const then = new Date(time);
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (then.getTime() >= midnight) return word("today");
  if (then.getTime() >= midnight - DAY_MS) return word("yesterday");
  return then.toLocaleDateString(language(), { dateStyle: "medium" });
}
