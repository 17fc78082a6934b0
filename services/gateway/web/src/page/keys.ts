// What the keyboard does on the whole page.
import { useEffect } from "react";

import { isComposing } from "../base/composition";
import type { PageParts } from "./context";
import type { Tab } from "./layout";

export interface Shortcut {
  // As the help sheet shows it.
  keys: string;
  name: string;
}

export const SHORTCUTS: Shortcut[] = [
  { keys: "Enter", name: "key_send" }, { keys: "Ctrl+Enter", name: "key_send_lines" }, { keys: "Shift+Enter", name: "key_line" }, { keys: "↑", name: "key_recall" },
  { keys: "/ @ #", name: "key_pick" }, { keys: "Esc", name: "key_escape" }, { keys: "Ctrl+K", name: "palette" }, { keys: "Ctrl+Shift+O", name: "fresh" },
  { keys: "Ctrl+/", name: "keys" }, { keys: "/", name: "key_ask" }, { keys: "j", name: "key_next_turn" }, { keys: "k", name: "key_previous_turn" },
  { keys: "End", name: "key_end" }, { keys: "]", name: "key_next_citation" }, { keys: "[", name: "key_previous_citation" }, { keys: "t", name: "key_trace" },
  { keys: "s", name: "key_sources" }, { keys: "d", name: "key_data" }, { keys: "c", name: "key_code" }, { keys: "e", name: "key_export" },
];

const TABS_BY_KEY: Record<string, Tab> = { t: "trace", s: "sources", d: "data", c: "code" };

// A table or a text that scrolls by itself has an end of its own.
const isScroller = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest(".scroll, pre, .panel, .sidebar, [role='menu']") !== null;

const isWriting = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

// The turn that the reader is at: the one with the focus, or else the one at the top of what is in sight.
function currentTurn(turns: HTMLElement[]): number {
  const focused = turns.findIndex((turn) => turn.contains(document.activeElement));
  if (focused >= 0) return focused;
  const top = document.getElementById("thread")?.getBoundingClientRect().top ?? 0;
  return turns.findLastIndex((turn) => turn.getBoundingClientRect().top <= top + 40);
}

function step(all: string, forward: boolean): void {
  const turns = [...document.querySelectorAll<HTMLElement>(".turn")];
  if (all === ".turn") {
    const next = turns[Math.max(0, Math.min(turns.length - 1, currentTurn(turns) + (forward ? 1 : -1)))];
    next?.scrollIntoView({ block: "start" });
    next?.querySelector("summary")?.focus({ preventScroll: true });
    return;
  }
  const places = [...document.querySelectorAll<HTMLElement>(all)];
  const at = places.indexOf(document.activeElement as HTMLElement);
  const first = forward ? 0 : places.length - 1;
  const next = places[at < 0 ? first : (at + (forward ? 1 : -1) + places.length) % places.length];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function actWithControl(event: KeyboardEvent, { layout, session }: PageParts): boolean {
  const key = event.key.toLowerCase();
  if (key === "k" && !event.shiftKey) layout.open(layout.dialog === "palette" ? "" : "palette");
  else if (key === "/" && !event.shiftKey) layout.open(layout.dialog === "help" ? "" : "help");
  else if (key === "o" && event.shiftKey) {
    session.fresh();
    document.getElementById("question")?.focus();
  } else return false;
  return true;
}

function actOnText(event: KeyboardEvent, { layout }: PageParts): boolean {
  const tab = TABS_BY_KEY[event.key];
  if (tab) layout.show(tab);
  else if (event.key === "j" || event.key === "k") step(".turn", event.key === "j");
  else if (event.key === "]" || event.key === "[") step(".answer .cite", event.key === "]");
  else if (event.key === "/") document.getElementById("question")?.focus();
  else if (event.key === "End" && !isScroller(event.target)) document.getElementById("to-end")?.click();
  else if (event.key === "e") [...document.querySelectorAll<HTMLElement>(".tools .export")].at(-1)?.focus();
  else return false;
  return true;
}

export function useShortcuts(parts: PageParts): void {
  useEffect(() => {
    const act = (event: KeyboardEvent): void => {
      // What lies over the text takes Escape first, and says so.
      if (event.defaultPrevented || isComposing(event)) return;
      const isControlled = event.ctrlKey || event.metaKey;
      if (event.key === "Escape" && parts.outbox.waiting) parts.outbox.takeBack();
      else if (event.key === "Escape") void parts.session.running?.stop();
      else if (isControlled && actWithControl(event, parts)) event.preventDefault();
      else if (!isControlled && !event.altKey && !isWriting(event.target) && !parts.layout.dialog && actOnText(event, parts)) event.preventDefault();
    };
    document.addEventListener("keydown", act);
    return () => document.removeEventListener("keydown", act);
  }, [parts]);
}
