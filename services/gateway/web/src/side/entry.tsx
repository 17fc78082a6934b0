// One conversation of the list: opened, pinned, renamed, deleted.
import { useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, type MouseEvent, useEffect, useRef, useState } from "react";

import { asProblem, call, patch, path } from "../base/api";
import { isComposing } from "../base/composition";
import { KEYS } from "../base/queries";
import { word } from "../base/words";
import type { Conversation } from "../contract/types";
import { addressOfConversation } from "../conversation/place";
import { Confirm } from "../page/confirm";

interface Props {
  item: Conversation;
  // What was searched for.
  query: string;
  isCurrent: boolean;
  onOpen: () => void;
  // Before the list is read anew.
  onChanged: () => void;
  onRemoved: () => void;
}

// A conversation whose first run goes on: nothing can be done with it but to look at it.
export function RunningEntry({ title, isCurrent, onOpen }: { title: string; isCurrent: boolean; onOpen: () => void }) {
  return (
    <div className="entry">
      <button type="button" className="open" title={title} aria-current={isCurrent || undefined} onClick={onOpen}>{title}</button>
      <span className="spin" role="img" aria-label={word("running")} />
    </div>
  );
}

// Opens a conversation in this window, unless a key asks for another one, which the browser opens by the address.
function openHere(event: MouseEvent, onOpen: () => void): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  onOpen();
}

export function ConversationEntry({ item, query, isCurrent, onOpen, onChanged, onRemoved }: Props) {
  const queries = useQueryClient();
  const [isRenamed, setRenamed] = useState(false);
  const open = useRef<HTMLAnchorElement>(null);
  const isLeftByKey = useRef(false);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (isRenamed || !isLeftByKey.current) return;
    isLeftByKey.current = false;
    open.current?.focus();
  }, [isRenamed]);
  const attempt = async (act: () => Promise<unknown>): Promise<void> => {
    try {
      await act();
      setProblem("");
    } catch (thrown) {
      setProblem(asProblem(thrown).message);
    }
    await queries.invalidateQueries({ queryKey: KEYS.conversations });
  };
  const change = (changes: { title?: string; pinned?: boolean }): void => void attempt(async () => {
    await patch(path("conversations", item.id), { ...changes, version: item.version });
    onChanged();
  });
  const remove = (): void => void attempt(async () => {
    await call(path("conversations", item.id), { method: "DELETE" });
    onRemoved();
  });
  const leave = (isByKey: boolean, title = ""): void => {
    isLeftByKey.current ||= isByKey;
    setRenamed(false);
    if (title && title !== item.title) change({ title });
  };
  return (
    <div className="entry" data-conversation={item.id}>
      {isRenamed ? <TitleField title={item.title} onLeave={leave} /> : (
        <a ref={open} href={addressOfConversation(item.id)} className="open" title={item.title} aria-current={isCurrent || undefined}
          onClick={(event) => openHere(event, onOpen)}>
          {item.title}{item.passage && <small><Emphasised text={item.passage} query={query} /></small>}
        </a>
      )}
      <Act label={item.pinned ? "unpin" : "pin"} title={item.title} sign={item.pinned ? "★" : "☆"} onAct={() => change({ pinned: !item.pinned })} />
      <Act label="rename" title={item.title} sign="✎" onAct={() => setRenamed(true)} />
      <Removal title={item.title} onRemove={remove} />
      {problem && <span className="chip bad" role="alert">{problem}</span>}
    </div>
  );
}

interface ActProps {
  // Among the page's words.
  label: string;
  title: string;
  sign: string;
  className?: string;
  isOff?: boolean;
  onAct: () => void;
}

export function Act({ label, title, sign, className = "", isOff, onAct }: ActProps) {
  return <button type="button" className={`quiet act ${className}`} disabled={isOff} aria-label={`${word(label)}: ${title}`} title={word(label)} onClick={onAct}>{sign}</button>;
}

// The title as a field: Enter keeps what is written, Escape and leaving it the old title.
export function TitleField({ title, label = "rename", onLeave }: { title: string; label?: string; onLeave: (isByKey: boolean, title?: string) => void }) {
  const [text, setText] = useState(title);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const act = (event: KeyboardEvent): void => {
    if (isComposing(event) || (event.key !== "Escape" && event.key !== "Enter")) return;
    event.preventDefault(); // on the page Escape stops the run
    onLeave(true, event.key === "Enter" ? text.trim() : "");
  };
  return <input ref={field} className="title" data-escape value={text} maxLength={200} autoFocus aria-label={word(label)}
    onChange={(event) => setText(event.target.value)} onKeyDown={act} onBlur={() => onLeave(false)} />;
}

function Removal({ title, onRemove }: { title: string; onRemove: () => void }) {
  return (
    <Confirm question={word("confirmRemove")} about={title} action={word("remove")} onConfirm={onRemove}>
      <button type="button" className="quiet act remove" aria-label={`${word("remove")}: ${title}`} title={word("remove")}>✕</button>
    </Confirm>
  );
}

// A text with the words of a search marked.
function Emphasised({ text, query }: { text: string; query: string }) {
  const words = query.split(/\s+/).filter(Boolean).map((one) => one.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  if (!words.length) return text;
  // Every second part of a split by a group is what the group has found.
  return text.split(new RegExp(`(${words.join("|")})`, "gi")).map((part, place) => (place % 2 ? <mark key={place}>{part}</mark> : part));
}
