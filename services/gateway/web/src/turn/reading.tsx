// How the question was read, under its words: the whole line, and its parts as chips. What is clicked becomes a field:
// Enter asks the question anew with the words that are written there, Escape leaves it as it was.
import { type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";

import { isComposing } from "../base/composition";
import { word } from "../base/words";
import type { Reading, Slot } from "../contract/types";
import type { Run } from "../run/run";
import { distinct, meaningOf, reworded, stateOf } from "../run/slots";

const LONGEST_LINE = 72;
const MOST_ROWS = 6;

export function ReadAs({ run, onAsk }: { run: Run; onAsk: (question: string) => void }) {
  const { reading, understood } = run;
  if (!understood && !reading?.line && !reading?.slots.length) return null;
  return (
    <div className="reading" role="group" aria-label={reading?.line || word("readAs")}>
      <Whole line={reading?.line ?? ""} understood={understood} question={understood || run.question} onAsk={onAsk} />
      {reading !== null && reading.slots.length > 0 && (
        <div className="gaps">
          <span className="dim">{`${word("changeParts")}${word("colon")}`}</span>
          <ul>{distinct(reading.slots).map((slot) => (
            <li key={`${slot.start} ${slot.end} ${slot.text}`}><SlotChip reading={reading} slot={slot} onAsk={onAsk} /></li>
          ))}</ul>
        </div>
      )}
    </div>
  );
}

interface Editing {
  isEdited: boolean;
  button: RefObject<HTMLButtonElement | null>;
  edit: () => void;
  leave: (isByKey: boolean) => void;
}

// A field in the place of a button, which has the focus again when a key has closed it.
function useEditing(): Editing {
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
  return { isEdited, button, edit: () => setEdited(true), leave };
}

// The question as it was made whole, where that is not its own words, and what was read in it. What is edited is the
// question: the line names its parts, and is no sentence.
function Whole({ line, understood, question, onAsk }: { line: string; understood: string; question: string; onAsk: (question: string) => void }) {
  const { isEdited, button, edit, leave } = useEditing();
  if (!understood && !line) return null;
  if (isEdited) {
    return <Field text={question} label={word("editReading")} onLeave={leave} onWords={(words) => {
      leave(true);
      if (words && words !== question) onAsk(words);
    }} />;
  }
  return (
    <div className="whole">
      <div>
        {understood && <p className="understood"><span className="dim">{`${word("stage_rewrite")}${word("colon")}`}</span>{understood}</p>}
        {line && <p className="dim line">{line}</p>}
      </div>
      <button ref={button} type="button" className="quiet" aria-label={word("editReading")} title={word("editReading")} onClick={edit}>✎</button>
    </div>
  );
}

function SlotChip({ reading, slot, onAsk }: { reading: Reading; slot: Slot; onAsk: (question: string) => void }) {
  const { isEdited, button, edit, leave } = useEditing();
  if (isEdited) {
    return <Field text={slot.text} label={`${word("slotFor")} ${slot.text}`} onLeave={leave} onWords={(words) => {
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
      title={`${why} · ${word("changeSlot")}`} aria-label={`${said}: ${why}. ${word("changeSlot")}`} onClick={edit}>
      {state === "open" ? `⚠ ${slot.text}` : slot.text}{meaning && <small>{` ${meaning}`}</small>}
    </button>
  );
}

interface FieldProps {
  text: string;
  label: string;
  onLeave: (isByKey: boolean) => void;
  onWords: (words: string) => void;
}

function Field({ text, label, onLeave, onWords }: FieldProps) {
  const [words, setWords] = useState(text);
  const field = useRef<HTMLTextAreaElement>(null);
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
  const length = [...text].length;
  return <textarea ref={field} className="slot" value={words} cols={Math.min(LONGEST_LINE, Math.max(6, length + 4))} autoFocus
    rows={Math.min(MOST_ROWS, Math.ceil(length / LONGEST_LINE))} aria-label={label}
    onChange={(event) => setWords(event.target.value)} onKeyDown={act} onBlur={() => onLeave(false)} />;
}
