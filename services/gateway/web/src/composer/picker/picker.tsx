// What can be picked at the caret, as a list below which the reader goes on typing: the focus stays in the question.
import { type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";

import { isComposing } from "../../base/composition";
import { word } from "../../base/words";
import { usePage } from "../../page/context";
import { type Option, type OptionList, useOptions } from "./options";
import { type Trigger, complete, findTrigger } from "./trigger";

const LIST = "picker";
const idOf = (place: number): string => `${LIST}-${place}`;

export interface Picking extends OptionList {
  trigger: Trigger | null;
  active: number;
  // Looks at the text and the caret anew.
  look: () => void;
  pick: (option: Option) => void;
  // Takes a key; true when it was for the list.
  take: (event: KeyboardEvent<HTMLTextAreaElement>) => boolean;
  leave: () => void;
}

export function usePicking(box: RefObject<HTMLTextAreaElement | null>): Picking {
  const { draft } = usePage();
  const [trigger, setTrigger] = useState<Trigger | null>(null);
  const [active, setActive] = useState(0);
  // A sign at which the reader has closed the list; it stays closed there.
  const closed = useRef(-1);
  const caret = useRef(-1);
  // A pick that waits for the names that go with what was typed.
  const [isWished, setWished] = useState(false);
  const list = useOptions(trigger);
  useEffect(() => {
    if (caret.current < 0) return;
    box.current?.setSelectionRange(caret.current, caret.current);
    caret.current = -1;
  });
  const look = (): void => {
    const found = box.current ? findTrigger(box.current.value, box.current.selectionStart) : null;
    if (found?.start !== closed.current) closed.current = -1;
    const shown = found && closed.current < 0 ? found : null;
    if (shown?.query !== trigger?.query || shown?.sign !== trigger?.sign) setActive(0);
    setWished(false);
    setTrigger(shown);
  };
  const leave = (): void => setTrigger(null);
  const pick = (option: Option): void => {
    if (!trigger) return;
    const completed = complete(draft.text, trigger, option.words);
    leave();
    caret.current = completed.caret;
    draft.write(completed.text);
    box.current?.focus();
    option.act?.();
  };
  const place = Math.min(active, Math.max(0, list.options.length - 1));
  useEffect(() => {
    if (!isWished || list.isReading) return;
    setWished(false);
    if (list.options[place]) pick(list.options[place]);
  });
  const take = (event: KeyboardEvent<HTMLTextAreaElement>): boolean => {
    if (!trigger || isComposing(event) || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return false;
    const last = list.options.length - 1;
    const isPicked = event.key === "Enter" || event.key === "Tab";
    if (event.key === "Escape") {
      closed.current = trigger.start;
      leave();
    } else if (isPicked && list.isReading) setWished(true);
    else if (last < 0) return false;
    else if (event.key === "ArrowDown") setActive(place >= last ? 0 : place + 1);
    else if (event.key === "ArrowUp") setActive(place <= 0 ? last : place - 1);
    else if (isPicked) pick(list.options[place]!);
    else return false;
    event.preventDefault();
    return true;
  };
  return { ...list, trigger, active: place, look, pick, take, leave };
}

// What the question says of the list to those who do not see it.
export function describePicking({ trigger, options, active }: Picking): object {
  if (!trigger) return { "aria-autocomplete": "list" as const };
  return {
    "aria-autocomplete": "list" as const, "aria-controls": options.length ? LIST : undefined, "aria-activedescendant": options.length ? idOf(active) : undefined,
  };
}

export function Picker({ picking }: { picking: Picking }) {
  const { trigger, options, active, isReading, problem } = picking;
  const chosen = useRef<HTMLLIElement>(null);
  // In braces: browsers give a promise here, which React would take for what undoes the effect.
  useEffect(() => { chosen.current?.scrollIntoView({ block: "nearest" }); }, [active]);
  if (!trigger) return null;
  const said = problem || (isReading ? "" : word(trigger.sign === "@" && !trigger.query.trim() ? "pickType" : "pickNothing"));
  return (
    <div className="picker">
      {options.length > 0 && <ul id={LIST} role="listbox" aria-label={word(`pick_${NAMES[trigger.sign]}`)}>{options.map((option, place) => (
        <li key={option.id} ref={place === active ? chosen : undefined} id={idOf(place)} role="option" aria-selected={place === active}
          // The focus stays where the reader writes.
          onMouseDown={(event) => event.preventDefault()} onClick={() => picking.pick(option)}>
          <span>{option.name}</span><small>{option.note}</small>
        </li>
      ))}</ul>}
      <p className="dim" role="status">{options.length ? "" : said}</p>
    </div>
  );
}

const NAMES = { "/": "commands", "@": "entities", "#": "material" } as const;
