// Conversations whose first run goes on: memory lists them once it has ended.
import { Store } from "../base/store";

export interface UnlistedConversation {
  id: string;
  title: string;
  run: string;
}

export class Unlisted extends Store {
  items: UnlistedConversation[] = [];
  // Those that the list has; set by whoever reads it.
  #known = new Set<string>();

  find(id: string): UnlistedConversation | undefined { return this.items.find((item) => item.id === id); }

  add(id: string, title: string, run: string): void {
    if (!id || this.#known.has(id) || this.find(id)) return;
    this.items = [{ id, title, run }, ...this.items];
    this.changed();
  }

  remove(id: string): void { this.#keep(this.items.filter((item) => item.id !== id)); }

  list(ids: string[]): void {
    this.#known = new Set(ids);
    this.#keep(this.items.filter((item) => !this.#known.has(item.id)));
  }

  #keep(items: UnlistedConversation[]): void {
    if (items.length === this.items.length) return;
    this.items = items;
    this.changed();
  }
}
