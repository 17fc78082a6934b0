// The question of a turn: its words, its versions, and the field in which it is edited.
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";

import { announce } from "../base/announce";
import { isComposing } from "../base/composition";
import { useStore } from "../base/store";
import { word } from "../base/words";
import { describeExcess, useLimits } from "../composer/limits";
import { usePage } from "../page/context";
import type { Turn } from "./turn";

const MOST_LINES = 8;

export function Asked({ turn, isEdited, onLeave }: { turn: Turn; isEdited: boolean; onLeave: () => void }) {
  if (isEdited) return <EditedQuestion turn={turn} onLeave={onLeave} />;
  return <div className="asked-line"><h2 className="asked">{turn.run.question}</h2><Versions turn={turn} /></div>;
}

function Versions({ turn }: { turn: Turn }) {
  const { session } = usePage();
  useStore(session);
  const runs = session.versionsOf(turn);
  if (runs.length < 2) return null;
  const place = runs.indexOf(turn.run.id);
  return (
    <span className="versions" role="group" aria-label={word("versions")}>
      <Step name="earlierVersion" sign="‹" run={runs[place - 1]} />{`${place + 1} / ${runs.length}`}<Step name="laterVersion" sign="›" run={runs[place + 1]} />
    </span>
  );
}

function Step({ name, sign, run }: { name: string; sign: string; run: string | undefined }) {
  const { session } = usePage();
  return (
    <button type="button" className="quiet" aria-label={word(name)} title={word(name)} disabled={!run}
      onClick={() => { if (run) void session.turnTo(run); }}>{sign}</button>
  );
}

// Enter asks what is written in the place of the turn; Escape leaves it as it was.
function EditedQuestion({ turn, onLeave }: { turn: Turn; onLeave: () => void }) {
  const { session } = usePage();
  const [text, setText] = useState(turn.run.question);
  const excess = describeExcess(text, useLimits());
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(field.current.value.length, field.current.value.length);
  }, []);
  const leave = (): void => {
    onLeave();
    // The button that opened the field is still there.
    field.current?.closest(".turn")?.querySelector<HTMLElement>(".tools .edit")?.focus();
  };
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const question = text.trim();
    if (excess) announce(excess);
    else if (question && !(await session.ask(question, turn))) field.current?.focus();
  };
  const act = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (isComposing(event)) return;
    if (event.key === "Escape") {
      event.preventDefault(); // on the page it stops the run
      leave();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      event.currentTarget.form?.requestSubmit();
    }
  };
  return (
    <form className="asked-form" onSubmit={(event) => void send(event)}>
      <textarea ref={field} value={text} rows={Math.min(MOST_LINES, text.split("\n").length + 1)} aria-label={word("editQuestion")}
        onChange={(event) => setText(event.target.value)} onKeyDown={act} />
      <div className="choice"><span className="excess" role="status">{excess}</span><button type="button" onClick={leave}>{word("cancel")}</button><button type="submit" className="primary" disabled={session.isSending}>{word("ask")}</button></div>
    </form>
  );
}
