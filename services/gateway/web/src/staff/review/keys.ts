// Single keys at the desk; not while one writes, and not with Control or Alt, which are the browser's.
import { useEffect } from "react";

import { isComposing } from "../../base/composition";

const isWriting = (target: EventTarget | null): boolean =>
  target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && target.type !== "radio");

export function useKeys(acts: Record<string, (() => void) | undefined>): void {
  useEffect(() => {
    const act = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || isComposing(event) || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
      const wanted = acts[event.key.toLowerCase()];
      if (!wanted) return;
      event.preventDefault();
      wanted();
    };
    document.addEventListener("keydown", act);
    return () => document.removeEventListener("keydown", act);
  });
}

// Control and Enter send a form from within its text.
export const sendOnEnter = (event: { key: string; ctrlKey: boolean; metaKey: boolean; currentTarget: HTMLElement; preventDefault: () => void }): void => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  event.currentTarget.closest("form")?.requestSubmit();
};
