// How the question was read, as chips above the answer. A chip that is clicked becomes a field: Enter asks the question
// anew with its words in the place of the old ones, Escape leaves it as it was.
import { type KeyboardEvent, useEffect, useRef, useState } from "react";

import { isComposing } from "../base/composition";
import { word } from "../base/words";
import type { Reading, Slot } from "../contract/types";
import { distinct, meaningOf, reworded, stateOf } from "../run/slots";

export function ReadAs({ reading, onAsk }: { reading: Reading | null; onAsk: (question: string) => void }) {
  if (!reading?.slots.length) return null;
  return (
    <div className="gaps reading" role="group" aria-label={reading.line || word("readAs")}>
      <span className="dim">{`${word("readAs")}${word("colon")}`}</span>
      <ul>{distinct(reading.slots).map((slot) => (
        <li key={`${slot.start} ${slot.end} ${slot.text}`}><SlotChip reading={reading} slot={slot} onAsk={onAsk} /></li>
      ))}</ul>
    </div>
  );
}

function SlotChip({ reading, slot, onAsk }: { reading: Reading; slot: Slot; onAsk: (question: string) => void }) {
  const [isEdited, setEdited] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const isLeftByKey = useRef(false);
  useEffect(() => {
    if (isEdited || !isLeftByKey.current) return;
    isLeftByKey.current = false;
    button.current?.focus();
  }, [isEdited]);

  const leave = (isByKey: boolean): void => {
    isLeftByKey.current ||= isByKey;
    setEdited(false);
  };
  if (isEdited) {
    return <SlotField slot={slot} onLeave={leave} onWords={(words) => {
      leave(true);
      if (words && words !== slot.text) onAsk(reworded(reading.question, slot, words));
    }} />;
  }
  const state = stateOf(slot);
  const why = [word(`slot_${state}`), slot.detail].filter(Boolean).join(": ");
  const meaning = meaningOf(slot);
  const said = meaning ? `${slot.text} ${meaning}` : slot.text;
  return (
    <button ref={button} type="button" className={`chip slot ${state === "open" ? "warn" : state}`} data-state={state}
      title={`${why} · ${word("changeSlot")}`} aria-label={`${said}: ${why}. ${word("changeSlot")}`} onClick={() => setEdited(true)}>
      {state === "open" ? `⚠ ${slot.text}` : slot.text}{meaning && <small>{` ${meaning}`}</small>}
    </button>
  );
}

function SlotField({ slot, onLeave, onWords }: { slot: Slot; onLeave: (isByKey: boolean) => void; onWords: (words: string) => void }) {
  const [words, setWords] = useState(slot.text);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const act = (event: KeyboardEvent): void => {
    if (isComposing(event)) return;
    if (event.key === "Escape") {
      event.preventDefault(); // on the page it stops the run
      onLeave(true);
    } else if (event.key === "Enter") {
      event.preventDefault();
      onWords(words.trim());
    }
  };
  return <input ref={field} className="slot" value={words} size={Math.max(6, [...slot.text].length + 4)} autoFocus
    aria-label={`${word("slotFor")} ${slot.text}`} onChange={(event) => setWords(event.target.value)} onKeyDown={act} onBlur={() => onLeave(false)} />;
}
