// Accept, reject or edit; an edit shows what it has changed before it is sent.
import { type FormEvent, useEffect, useRef, useState } from "react";

import { isComposing } from "../../base/composition";
import type { ReviewItem } from "../../contract/types";
import { say } from "../words";
import type { Desk } from "./desk";
import { Difference } from "./difference";
import { editable } from "./items";
import { sendOnEnter, useKeys } from "./keys";
import { Problems } from "./problems";
import { ReasonField } from "./reason-field";

const MAX_CHARS = 100_000;

export function VerdictForm({ desk, item }: { desk: Desk; item: ReviewItem }) {
  const before = editable(item)?.text ?? "";
  const [text, setText] = useState<string | null>(null);
  const [reason, setReason] = useState("");
  const editButton = useRef<HTMLButtonElement>(null);
  const said = { reason: reason.trim() };
  const accept = (): void => void desk.decide({ decision: "accept", ...said });
  const reject = (): void => void desk.decide({ decision: "reject", ...said });
  const edit = (): void => setText(before);
  const drop = (): void => setText(null);
  const isEditing = text !== null;
  const wasEditing = useRef(false);
  useEffect(() => {
    // What had the focus has gone with the editor.
    if (wasEditing.current && !isEditing) editButton.current?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);
  // Nobody may have proposed a text yet: the reviewer writes one, or rejects.
  const isEmpty = !before.trim();
  useKeys(isEditing ? {} : { a: isEmpty ? undefined : accept, r: reject, e: edit, s: () => void desk.skip() });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (text !== null && text !== before && text.trim()) void desk.decide({ decision: "edit", text, ...said });
  };
  return (
    <form className="decision" onSubmit={send} aria-label={say("verdictTitle")}>
      {isEditing && <Editor before={before} text={text} onChange={setText} onDrop={drop} />}
      <ReasonField value={reason} onChange={setReason} onKeyDown={sendOnEnter} />
      <Problems problem={desk.problem} />
      <div className="choice" aria-busy={desk.isBusy || undefined}>
        {isEditing && <button type="submit" className="primary" disabled={text === before || !text.trim()}>{say("saveEdit")}</button>}
        {isEditing && <button type="button" onClick={drop}>{say("cancelEdit")}</button>}
        {!isEditing && !isEmpty && <button type="button" className="primary" onClick={accept}>{say("accept")}</button>}
        {!isEditing && <button type="button" className="danger" onClick={reject}>{say("reject")}</button>}
        <button ref={editButton} type="button" hidden={isEditing} onClick={edit}>{say("edit")}</button>
        <button type="button" className="quiet" onClick={() => void desk.skip()}>{say("skip")}</button>
        <span className="dim keys">{say(isEditing ? "keysEdit" : "keysVerdict")}</span>
      </div>
    </form>
  );
}

interface EditorProps {
  before: string;
  text: string;
  onChange: (text: string) => void;
  onDrop: () => void;
}

function Editor({ before, text, onChange, onDrop }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <div className="editor">
      <div>
        <label htmlFor="edited">{say("editedText")}</label>
        <textarea id="edited" ref={field} rows={8} maxLength={MAX_CHARS} value={text} onChange={(event) => onChange(event.target.value)} onKeyDown={(event) => {
          sendOnEnter(event);
          if (event.key === "Escape" && !isComposing(event)) onDrop();
        }} />
      </div>
      <div><h3>{say("difference")}</h3>{text === before ? <p className="dim">{say("sameText")}</p> : <Difference before={before} after={text} />}</div>
    </div>
  );
}
