// Conversations, newest first, grouped by day; what is typed above them is searched in titles and turns by the server.
import { asProblem, call, patch, path } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { counted, language, word } from "../base/words";
import type { Conversation, Conversations, RunRecord } from "../contract/types";

interface Handlers {
  onOpen: (id: string) => void;
  onRemoved: (id: string) => void;
}

const DAY_MS = 86_400_000;
// A pause in typing: the server compares every word with every turn.
const PAUSE_MS = 250;
const WATCH_MS = 5000;
const PAGE = 100;

export class Sidebar {
  readonly #handlers: Handlers;
  items: Conversation[] = [];
  // Those whose first run goes on: memory lists them once it has ended.
  #running: (Conversation & { run: string })[] = [];
  #watching: ReturnType<typeof setTimeout> | undefined;
  #next = "";
  #pages = 1;
  #pause: ReturnType<typeof setTimeout> | undefined;
  // Counts the requests for the list: an answer that a later one has overtaken is not shown.
  #asked = 0;
  // Whether the list has changed while a title was edited.
  #isStale = false;
  current = "";

  constructor(handlers: Handlers) {
    this.#handlers = handlers;
    byId("filter").addEventListener("input", () => {
      clearTimeout(this.#pause);
      this.#pages = 1;
      this.#pause = setTimeout(() => void this.load(), PAUSE_MS);
    });
  }

  get #query(): string { return byId<HTMLInputElement>("filter").value.trim(); }

  // Reads the list, as many pages of it as the reader has asked for; when it cannot be read, the old one stays.
  async load(): Promise<void> {
    const asked = ++this.#asked;
    const items: Conversation[] = [];
    let next = "";
    try {
      for (let page = 0; page < this.#pages && (!page || next); page += 1) {
        const query = new URLSearchParams({ page_size: String(PAGE), page_token: next, query: this.#query });
        const found = await call<Conversations>(`${path("conversations")}?${query}`);
        items.push(...found.conversations);
        next = found.next_page_token;
      }
      if (asked !== this.#asked) return;
      this.items = items;
      this.#next = next;
      const known = new Set(items.map((item) => item.id));
      this.#running = this.#running.filter((item) => !known.has(item.id));
      byId("conversations").title = "";
      this.draw();
    } catch (thrown) {
      if (asked === this.#asked) byId("conversations").title = asProblem(thrown).message;
    }
  }

  // Lists a conversation whose first run has begun.
  began(id: string, title: string, run: string): void {
    if (!id || [...this.items, ...this.#running].some((item) => item.id === id)) return;
    const now = new Date().toISOString();
    this.#running.unshift({ id, title, turns: 0, update_time: now, pinned: false, version: 0, passage: "", run });
    this.draw();
    this.#watch();
  }

  // A conversation that memory does not list yet, with its first run.
  running(id: string): { run: string; title: string } | undefined { return this.#running.find((item) => item.id === id); }

  // Looks after runs that nobody on this page follows any more.
  #watch(): void {
    clearTimeout(this.#watching);
    if (!this.#running.length) return;
    this.#watching = setTimeout(() => {
      void Promise.all(this.#running.map(async ({ id, run }) => {
        const record = await call<RunRecord>(path("runs", run)).catch(() => null);
        if (record && !record.running) this.ended(id);
      })).then(() => this.load()).then(() => this.#watch());
    }, WATCH_MS);
  }

  // Takes it out again when its run has ended without a turn.
  ended(id: string): void {
    this.#running = this.#running.filter((item) => item.id !== id);
  }

  async #older(): Promise<void> {
    const place = byId("conversations");
    const count = place.querySelectorAll(".entry").length;
    this.#pages += 1;
    await this.load();
    place.querySelectorAll<HTMLElement>(".entry .open")[count]?.focus();
  }

  // While a title is edited the list stays as it is, so that its field does; what has the focus keeps it.
  draw(): void {
    const place = byId("conversations");
    if (place.querySelector("input.title")) {
      this.#isStale = true;
      return;
    }
    this.#isStale = false;
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const id = focused?.closest<HTMLElement>("[data-conversation]")?.dataset.conversation;
    const control = focused ? [...(focused.parentElement?.children ?? [])].indexOf(focused) : -1;
    const query = this.#query;
    const shown = query ? this.items : [...this.#running, ...this.items];
    const parts: HTMLElement[] = [];
    if (query) parts.push(el("p", { class: "dim found", role: "status" }, shown.length ? `${counted(shown.length, "oneFound", "found")}${this.#next ? " +" : ""}` : word("noneFound")));
    let group = "";
    for (const item of shown) {
      const name = item.pinned ? word("pinned") : dayOf(item.update_time ?? "");
      if (name !== group) parts.push(el("h3", {}, name));
      group = name;
      parts.push(item.version ? this.#entry(item) : el("div", { class: "entry" }, this.#title(item), el("span", { class: "spin", role: "img", "aria-label": word("running") })));
    }
    if (this.#next) parts.push(el("button", { type: "button", class: "quiet wide older", onclick: () => void this.#older() }, word("older")));
    place.replaceChildren(...parts);
    if (id) (place.querySelector(`[data-conversation="${CSS.escape(id)}"]`)?.children[control] as HTMLElement | undefined)?.focus();
  }

  #title(item: Conversation): HTMLButtonElement {
    return el("button", {
      type: "button", class: "open", title: item.title, "aria-current": item.id === this.current ? "true" : null,
      onclick: () => this.#handlers.onOpen(item.id),
    }, item.title, item.passage && el("small", {}, ...emphasised(item.passage, this.#query)));
  }

  #entry(item: Conversation): HTMLElement {
    const open = this.#title(item);
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
      else if (this.#isStale) this.draw();
    };
    const leave = (): void => {
      field.replaceWith(open);
      if (this.#isStale) this.draw();
    };
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

// A text with the words of a search marked.
function emphasised(text: string, query: string): (HTMLElement | string)[] {
  const words = query.split(/\s+/).filter(Boolean).map((one) => one.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  if (!words.length) return [text];
  // Every second part of a split by a group is what the group has found.
  return text.split(new RegExp(`(${words.join("|")})`, "gi")).map((part, place) => (place % 2 ? el("mark", {}, part) : part));
}

function dayOf(time: string): string {
  const then = new Date(time);
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (then.getTime() >= midnight) return word("today");
  if (then.getTime() >= midnight - DAY_MS) return word("yesterday");
  return then.toLocaleDateString(language(), { dateStyle: "medium" });
}
