// The run's todo list: shown as the model and the reader change it, editable while the run runs.
import { type RefObject, useEffect, useRef, useState } from "react";

import { word } from "../base/words";
import type { TodoItem } from "../contract/types";
import { Act, TitleField } from "../side/entry";
import type { Turn } from "./turn";

const MAX_ITEMS = 20;
const MAX_CHARS = 200;

export function Todo({ turn }: { turn: Turn }) {
  const { run } = turn;
  const root = useRef<HTMLElement>(null);
  const refocus = useRefocus(root);
  // The step that is being added.
  const [typed, setTyped] = useState("");
  if (!run.todo.length && (run.over || !run.last)) return null;
  const change = (known: TodoItem, ...changed: TodoItem[]): Promise<boolean> => turn.plan((items) => replaceAt(items, find(items, known), changed));
  const drop = (known: TodoItem): void => {
    // What has the focus goes with its step.
    root.current?.querySelector<HTMLElement>("form input")?.focus();
    void change(known);
  };
  const move = (known: TodoItem, by: -1 | 1): void => {
    refocus(known.text, by < 0 ? ".up" : ".down");
    void turn.plan((items) => moveAt(items, find(items, known), by));
  };
  const rewrite = async (known: TodoItem, text: string): Promise<boolean> => {
    refocus(text, ".edit");
    const isTaken = await change(known, { ...known, text });
    // Its step is gone, and the field with it: what was typed may become one of its own.
    if (!isTaken && find(run.todo, known) < 0) setTyped((other) => other || text);
    return isTaken;
  };
  const add = (text: string): void => {
    if (run.todo.length >= MAX_ITEMS) return;
    void turn.plan((items) => [...items, { text, state: "open" }]).then((isTaken) => {
      // It stays until the run has it; what has been typed meanwhile is another step.
      if (isTaken) setTyped((other) => (other.trim() === text ? "" : other));
    });
  };
  return (
    <section ref={root} className="todo" aria-label={word("todo")}>
      {run.todo.length > 0 && <span className="dim">{word("todo")}</span>}
      <ul className="entries">
        {run.todo.map((item, place) => (
          <Entry key={`${item.text} ${run.todo.slice(0, place).filter(({ text }) => text === item.text).length}`} item={item} isFixed={run.over}
            isFirst={place === 0} isLast={place === run.todo.length - 1}
            onChange={(changed) => void change(item, changed)} onDrop={() => drop(item)} onMove={(by) => move(item, by)} onRewrite={(text) => rewrite(item, text)} />
        ))}
      </ul>
      {!run.over && <Addition hasSteps={run.todo.length > 0} text={typed} onType={setTyped} onAdd={add} />}
      {turn.todoProblem && <p className="dim" role="status">{turn.todoProblem}</p>}
    </section>
  );
}

// The place of a step, also in a later plan, which has another object of the same text; -1 where it is gone.
const find = (items: TodoItem[], known: TodoItem): number =>
  (items.includes(known) ? items.indexOf(known) : items.findIndex(({ text }) => text === known.text));

const replaceAt = (items: TodoItem[], place: number, changed: TodoItem[]): TodoItem[] | null =>
  (place < 0 ? null : [...items.slice(0, place), ...changed, ...items.slice(place + 1)]);

function moveAt(items: TodoItem[], place: number, by: -1 | 1): TodoItem[] | null {
  const rest = replaceAt(items, place, []);
  rest?.splice(Math.max(0, place + by), 0, items[place]!);
  return rest;
}

// A step that is moved or rewritten comes back with the run's own list, at another place or under another text: its
// button then has the focus again, unless the reader has turned elsewhere.
function useRefocus(root: RefObject<HTMLElement | null>): (text: string, button: string) => void {
  const wish = useRef<{ text: string; button: string; before: string } | null>(null);
  const orderOf = (): string => [...(root.current?.querySelectorAll<HTMLElement>("[data-step]") ?? [])].map((step) => step.dataset.step).join("\n");
  useEffect(() => {
    if (!wish.current || wish.current.before === orderOf()) return;
    const { text, button } = wish.current;
    wish.current = null;
    if (document.activeElement !== document.body && !root.current?.contains(document.activeElement)) return;
    const step = root.current?.querySelector(`[data-step="${CSS.escape(text)}"]`);
    step?.querySelector<HTMLElement>(`${button}:enabled, .edit`)?.focus();
  });
  return (text, button) => { wish.current = { text, button, before: orderOf() }; };
}

interface EntryProps {
  item: TodoItem;
  isFixed: boolean;
  isFirst: boolean;
  isLast: boolean;
  onChange: (item: TodoItem) => void;
  onDrop: () => void;
  onMove: (by: -1 | 1) => void;
  // Whether the run has taken the text.
  onRewrite: (text: string) => Promise<boolean>;
}

function Entry({ item, isFixed, isFirst, isLast, onChange, onDrop, onMove, onRewrite }: EntryProps) {
  // Where the model takes the step away meanwhile, the field goes with it: what is gone is not brought back.
  const [isWritten, setWritten] = useState(false);
  const place = useRef<HTMLLIElement>(null);
  const isLeftByKey = useRef(false);
  const isSaving = useRef(false);
  useEffect(() => {
    if (isWritten || !isLeftByKey.current) return;
    isLeftByKey.current = false;
    place.current?.querySelector<HTMLElement>(".edit")?.focus();
  }, [isWritten]);
  const isDone = item.state === "done";
  const close = (isByKey: boolean): void => {
    isLeftByKey.current ||= isByKey;
    setWritten(false);
  };
  const leave = (isByKey: boolean, text = ""): void => {
    if (isSaving.current) return;
    if (!text || text === item.text) return close(isByKey);
    isSaving.current = true;
    // What was typed stays in its field where the run does not take it.
    void onRewrite(text).then((isTaken) => {
      isSaving.current = false;
      if (isTaken) close(isByKey);
    });
  };
  if (isWritten && !isFixed) return <li ref={place} className="edited" data-step={item.text}><TitleField title={item.text} label="todoText" onLeave={leave} /></li>;
  return (
    <li ref={place} className={item.state} data-step={item.text}>
      <label>
        <input type="checkbox" checked={isDone} disabled={isFixed} aria-label={item.text}
          onChange={() => onChange({ ...item, state: isDone ? "open" : "done" })} />
        <span className="text">{item.text}</span>
      </label>
      {!isFixed && (
        <>
          <Act label="todoUp" title={item.text} sign="↑" className="up" isOff={isFirst} onAct={() => onMove(-1)} />
          <Act label="todoDown" title={item.text} sign="↓" className="down" isOff={isLast} onAct={() => onMove(1)} />
          <Act label="todoText" title={item.text} sign="✎" className="edit" onAct={() => setWritten(true)} />
          <Act label="todoDrop" title={item.text} sign="×" onAct={onDrop} />
        </>
      )}
    </li>
  );
}

interface AdditionProps {
  hasSteps: boolean;
  text: string;
  onType: (text: string) => void;
  onAdd: (text: string) => void;
}

function Addition({ hasSteps, text, onType, onAdd }: AdditionProps) {
  const [isOpen, setOpen] = useState(hasSteps);
  // Without a plan a line is enough to begin one.
  if (!isOpen && !hasSteps) return <button type="button" className="quiet" onClick={() => setOpen(true)}>{`＋ ${word("todoAdd")}`}</button>;
  const add = (event: { preventDefault: () => void }): void => {
    event.preventDefault();
    if (text.trim()) onAdd(text.trim());
  };
  return (
    <form onSubmit={add}>
      <input type="text" maxLength={MAX_CHARS} value={text} autoFocus={!hasSteps} aria-label={word("todoAdd")} placeholder={word("todoAdd")}
        onChange={(event) => onType(event.target.value)} />
      <button type="submit" className="quiet" aria-label={word("todoAdd")}>+</button>
    </form>
  );
}
