// The reader's own files in the panel's tab of data: what goes with the next question, what earlier answers have read, and a
// way to attach more.
import { useRef } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { useStore } from "../base/store";
import { word } from "../base/words";
import { describeUpload } from "../composer/upload-chips";
import { ACCEPTED } from "../composer/uploads";
import { usePage } from "../page/context";
import { type Answered, ownDocuments, usesDocument, usesSheet } from "../run/uses";
import { UsedBy } from "./used-by";

interface Brought {
  name: string;
  // Its size, while it goes with the next question.
  note: string;
  isReading: boolean;
  isUsed: (run: Answered) => boolean;
}

function useBrought(): Brought[] {
  const { session, uploads } = usePage();
  useStore(session);
  const { items } = useStore(uploads);
  const attached = items.map((item): Brought => ({
    name: item.name, note: describeUpload(item), isReading: item.state === "reading",
    isUsed: (run) => usesDocument(run, item.name) || Boolean(item.title && usesDocument(run, item.title)) || [item.sheet?.id, item.imported].some((id) => id !== undefined && usesSheet(run, id)),
  }));
  const known = new Set(items.map(({ name }) => name));
  const earlier = session.turns.flatMap(({ run }) => ownDocuments(run)).filter((name) => !known.has(name) && known.add(name));
  return [...attached, ...earlier.map((name): Brought => ({ name, note: word("broughtEarlier"), isReading: false, isUsed: (run) => usesDocument(run, name) }))];
}

export function BroughtFiles() {
  const { uploads } = usePage();
  const files = useRef<HTMLInputElement>(null);
  const brought = useBrought();
  return (
    <section className="brought" aria-label={word("ownFiles")}>
      <div className="thing-head">
        <strong>{word("ownFiles")}</strong><span className="spacer" />
        <button type="button" onClick={() => files.current?.click()}>{word("attachHere")}</button>
        <input ref={files} type="file" multiple hidden tabIndex={-1} aria-hidden accept={ACCEPTED} onChange={({ target }) => {
          const chosen = [...(target.files ?? [])];
          target.value = "";
          uploads.take(chosen).catch((thrown: unknown) => announce(asProblem(thrown).message));
        }} />
      </div>
      <p className="dim note">{word("attachNote")}</p>
      {brought.length > 0 && <ul className="things">{brought.map(({ name, note, isReading, isUsed }) => (
        <li key={name} aria-busy={isReading || undefined}>
          <div className="thing-head"><strong>{name}</strong><span className="dim">{note}</span></div>
          <UsedBy isUsed={isUsed} />
        </li>
      ))}</ul>}
    </section>
  );
}
