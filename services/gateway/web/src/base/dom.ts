// Elements without HTML strings: text is always a text node, so nothing a model writes can become markup.

export type Child = Node | string | null | undefined | false;
export type Children = Child | readonly Child[];

type Listeners = { [K in keyof HTMLElementEventMap as `on${K}`]?: (event: HTMLElementEventMap[K]) => unknown };
export interface Attributes extends Listeners {
  data?: Record<string, string | number>;
  [name: string]: unknown;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Children[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value as EventListener);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  const given = children.flat() as Child[];
  made.append(...given.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return made;
}

// A part of the page's own document, which has it.
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

// Says something to screen readers without moving the focus.
export function announce(text: string): void {
  byId("live").textContent = text;
}
