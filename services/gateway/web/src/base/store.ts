// State beside React: a class that says when it has changed, and a hook that draws a component again whenever it has.
import { useSyncExternalStore } from "react";

export class Store {
  readonly #listeners = new Set<() => void>();
  #version = 0;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly version = (): number => this.#version;

  changed(): void {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}

const follow = (): (() => void) => () => {};
const none = (): number => 0;

export function useStore<T extends Store | null>(store: T): T {
  useSyncExternalStore(store?.subscribe ?? follow, store?.version ?? none);
  return store;
}
