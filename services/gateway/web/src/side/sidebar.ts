// Conversations, newest first, grouped by day.
import { asProblem, call, patch, path } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { language, word } from "../base/words";
import type { Conversation, Conversations } from "../contract/types";

interface Handlers {
  onOpen: (id: string) => void;
  onRemoved: (id: string) => void;
}

const DAY_MS = 86_400_000;

export class Sidebar {
  readonly #handlers: Handlers;
  items: Conversation[] = [];
  current = "";

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
    byId("filter").addEventListener("input", () => this.draw());
  }

  // Reads the list; when it cannot be read, the old one stays.
  async load(): Promise<void> {
    try {
      this.items = (await call<Conversations>(path("conversations"))).conversations;
      this.draw();
    } catch (thrown) {
      byId("conversations").title = asProblem(thrown).message;
    }
  }

  draw(): void {
    const wanted = byId<HTMLInputElement>("filter").value.trim().toLowerCase();
    const shown = this.items.filter((item) => item.title.toLowerCase().includes(wanted));
    const parts: HTMLElement[] = [];
    let group = "";
    for (const item of shown) {
      const name = item.pinned ? word("pinned") : dayOf(item.update_time ?? "");
      if (name !== group) parts.push(el("h3", {}, name));
      group = name;
      parts.push(this.#entry(item));
    }
    byId("conversations").replaceChildren(...parts);
  }

  #entry(item: Conversation): HTMLElement {
    const open = el("button", {
      type: "button", class: "open", title: item.title, "aria-current": item.id === this.current ? "true" : null,
      onclick: () => this.#handlers.onOpen(item.id),
    }, item.title);
    const act = (label: string, sign: string, onclick: () => void): HTMLElement => el("button", {
      type: "button", class: "quiet act", "aria-label": `${word(label)}: ${item.title}`, title: word(label), onclick,
    }, sign);
    const pin = act(item.pinned ? "unpin" : "pin", item.pinned ? "★" : "☆", () => void this.#change(item, { pinned: !item.pinned }));
    const rename = act("rename", "✎", () => this.#rename(item, entry, open));
    const remove = el("button", {
      type: "button", class: "quiet remove", "aria-label": `${word("remove")}: ${item.title}`,
      onclick: () => void this.#remove(item),
    }, "✕");
    const entry: HTMLElement = el("div", { class: "entry", data: { conversation: item.id } }, open, pin, rename, remove);
    return entry;
  }

  // The title becomes a field: Enter keeps what is written, Escape and leaving it the old title.
  #rename(item: Conversation, entry: HTMLElement, open: HTMLElement): void {
    const keep = (event: KeyboardEvent): void => {
      if (event.isComposing || (event.key !== "Escape" && event.key !== "Enter")) return;
      event.preventDefault();
      event.stopPropagation(); // on the page Escape stops the run
      const title = field.value.trim();
      field.removeEventListener("blur", leave);
      field.replaceWith(open);
      open.focus();
      if (event.key === "Enter" && title && title !== item.title) void this.#change(item, { title });
    };
    const leave = (): void => field.replaceWith(open);
    const field = el("input", {
      value: item.title, maxlength: 200, class: "title", "aria-label": word("rename"), onkeydown: keep, onblur: leave,
    });
    entry.replaceChild(field, open);
    field.focus();
    field.select();
  }

  async #change(item: Conversation, changes: { title?: string; pinned?: boolean }): Promise<void> {
    try {
      await patch(path("conversations", item.id), { ...changes, version: item.version });
    } catch (thrown) {
      announce(asProblem(thrown).message);
    }
    await this.load();
    byId("conversations").querySelector<HTMLElement>(`[data-conversation="${CSS.escape(item.id)}"] .open`)?.focus();
  }

  async #remove(item: Conversation): Promise<void> {
    if (!confirm(word("confirmRemove"))) return;
    try {
      await call(path("conversations", item.id), { method: "DELETE" });
      this.#handlers.onRemoved(item.id);
    } catch (thrown) {
      byId("conversations").title = asProblem(thrown).message;
    }
    await this.load();
  }
}

function dayOf(time: string): string {
  const then = new Date(time);
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (then.getTime() >= midnight) return word("today");
  if (then.getTime() >= midnight - DAY_MS) return word("yesterday");
  return then.toLocaleDateString(language(), { dateStyle: "medium" });
}
