// The question, what is chosen beside it, and the files that go with it.
import { type ClipboardEvent, type FormEvent, type KeyboardEvent, useEffect, useLayoutEffect, useRef, useState } from "react";

import { announce } from "../base/announce";
import { isComposing } from "../base/composition";
import { useStore } from "../base/store";
import { word } from "../base/words";
import { WaitingQuestion } from "../connection/banner";
import { usePage } from "../page/context";
import { Choices, ModelChoice, useModels } from "./choices";
import { obey, useCommands } from "./commands";
import { describeExcess, useLimits } from "./limits";
import { Picker, describePicking, usePicking } from "./picker/picker";
import { SourcesMenu } from "./sources-menu";
import { UploadChips } from "./upload-chips";
import { ACCEPTED } from "./uploads";

const HIGHEST_PX = 200;

export function Composer() {
  const { session, uploads, preferences } = usePage();
  useStore(session);
  useStore(preferences);
  const files = useRef<HTMLInputElement>(null);
  const models = useModels();
  return (
    <form id="composer" onSubmit={useSubmit()}>
      {session.problem && <div id="problem" role="alert">{session.problem}</div>}
      <WaitingQuestion />
      <div className="box">
        <Question />
        <UploadChips />
        <Excess />
        <div className="bar">
          <button id="attach" type="button" className="quiet" aria-label={word("attach")} title={word("attach")} onClick={() => files.current?.click()}>＋</button>
          <input ref={files} id="files" type="file" multiple tabIndex={-1} aria-hidden hidden accept={ACCEPTED} onChange={({ target }) => {
            const chosen = [...(target.files ?? [])];
            target.value = "";
            void uploads.take(chosen);
          }} />
          <ModelChoice models={models} />
          <Choices />
          <SourcesMenu />
          <span className="spacer" />
          <span className="dim hint wide-only">{word(preferences.chosen("enter") === "line" ? "hintLines" : "hint")}</span>
          <button id="send" type="submit" className="primary" disabled={session.isSending}>{word("ask")}</button>
        </div>
      </div>
      <p id="compliance" className="dim">{models.isRules && <span id="model-note">{`${word("rules")} · `}</span>}{word("compliance")}</p>
    </form>
  );
}

function useSubmit(): (event: FormEvent) => void {
  const { session, draft } = usePage();
  const limits = useLimits();
  const commands = useCommands();
  return (event) => {
    event.preventDefault();
    const refusal = obey(draft.text, commands);
    if (refusal !== null) {
      session.complain(refusal);
      return refusal ? undefined : draft.write("");
    }
    const question = draft.text.trim();
    if (!question) return;
    const excess = describeExcess(question, limits);
    // It stands beside the button already.
    if (excess) return announce(excess);
    // What has been written meanwhile is another question.
    void session.ask(question).then((isTaken) => { if (isTaken && draft.text.trim() === question) draft.write(""); });
  };
}

function Question() {
  const { session, draft, uploads, preferences } = usePage();
  const { text } = useStore(draft);
  const hasLines = useStore(preferences).chosen("enter") === "line";
  const box = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (!box.current) return;
    box.current.style.height = "auto";
    box.current.style.height = `${Math.min(box.current.scrollHeight, HIGHEST_PX)}px`;
  }, [text]);
  useEffect(() => box.current?.focus(), []);
  const picking = usePicking(box);
  // What is written by the page itself is looked at as well.
  useEffect(picking.look, [text]);
  const act = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (picking.take(event)) return;
    const isSending = !event.shiftKey && (hasLines ? event.ctrlKey || event.metaKey : true);
    if (event.key === "Enter" && isSending && !isComposing(event)) {
      event.preventDefault();
      event.currentTarget.form?.requestSubmit();
    } else if (event.key === "ArrowUp" && !text && session.turns.length) {
      event.preventDefault();
      draft.write(session.turns.at(-1)?.run.question ?? "");
    }
  };
  const paste = (event: ClipboardEvent): void => {
    const pasted = [...event.clipboardData.files];
    // Spreadsheets put a picture of the cells beside their text.
    if (!pasted.length || event.clipboardData.types.includes("text/plain")) return;
    event.preventDefault();
    void uploads.take(pasted);
  };
  return (
    <>
      <Picker picking={picking} />
      <textarea ref={box} id="question" rows={1} value={text} aria-label={word("placeholder")} placeholder={word("placeholder")}
        {...describePicking(picking)} onChange={(event) => draft.write(event.target.value)} onSelect={picking.look} onBlur={picking.leave}
        onKeyDown={act} onPaste={paste} />
    </>
  );
}

function Excess() {
  const { draft } = usePage();
  return <span id="count" className="excess" role="status">{describeExcess(useStore(draft).text, useLimits())}</span>;
}

// Whether files are held over the place, and what is done with them when they are dropped there.
export function useDrop() {
  const { uploads } = usePage();
  const [isOver, setOver] = useState(false);
  const brings = (event: React.DragEvent): boolean => event.dataTransfer.types.includes("Files");
  return {
    className: isOver ? "dropping" : undefined,
    onDragOver: (event: React.DragEvent) => {
      if (!brings(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (event: React.DragEvent) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false); },
    onDrop: (event: React.DragEvent) => {
      if (!brings(event)) return;
      event.preventDefault();
      setOver(false);
      void uploads.take([...event.dataTransfer.files]);
    },
  };
}
