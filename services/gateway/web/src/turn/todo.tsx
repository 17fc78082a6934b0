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
  if (!run.todo.length && (run.over || !run.last)) return null;
  const change = (known: TodoItem, item: TodoItem | null): void => {
    // What has the focus goes with its step.
    if (!item) root.current?.querySelector<HTMLElement>("form input")?.focus();
    void turn.plan(run.todo.flatMap((one) => (one === known ? (item ? [item] : []) : [one])));
  };
  const move = (known: TodoItem, by: -1 | 1): void => {
    const rest = run.todo.filter((one) => one !== known);
    rest.splice(run.todo.indexOf(known) + by, 0, known);
    refocus(known.text, by < 0 ? ".up" : ".down");
    void turn.plan(rest);
  };
  const rewrite = (known: TodoItem, text: string): void => {
    refocus(text, ".edit");
    change(known, { ...known, text });
  };
  return (
    <section ref={root} className="todo" aria-label={word("todo")}>
      {run.todo.length > 0 && <span className="dim">{word("todo")}</span>}
      <ul className="entries">
        {run.todo.map((item, place) => (
          <Entry key={`${item.text} ${run.todo.slice(0, place).filter(({ text }) => text === item.text).length}`} item={item} isFixed={run.over}
            isFirst={place === 0} isLast={place === run.todo.length - 1}
            onChange={(changed) => change(item, changed)} onMove={(by) => move(item, by)} onRewrite={(text) => rewrite(item, text)} />
        ))}
      </ul>
      {!run.over && <Addition hasSteps={run.todo.length > 0} onAdd={(text) => {
        if (run.todo.length < MAX_ITEMS) void turn.plan([...run.todo, { text, state: "open" }]);
      }} />}
      {turn.todoProblem && <p className="dim" role="status">{turn.todoProblem}</p>}
    </section>
  );
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
  onChange: (item: TodoItem | null) => void;
  onMove: (by: -1 | 1) => void;
  onRewrite: (text: string) => void;
}

function Entry({ item, isFixed, isFirst, isLast, onChange, onMove, onRewrite }: EntryProps) {
  // Where the model takes the step away meanwhile, the field goes with it: what is gone is not brought back.
  const [isWritten, setWritten] = useState(false);
  const place = useRef<HTMLLIElement>(null);
  const isLeftByKey = useRef(false);
  useEffect(() => {
    if (isWritten || !isLeftByKey.current) return;
    isLeftByKey.current = false;
    place.current?.querySelector<HTMLElement>(".edit")?.focus();
  }, [isWritten]);
  const isDone = item.state === "done";
  const leave = (isByKey: boolean, text = ""): void => {
    isLeftByKey.current ||= isByKey;
    setWritten(false);
    if (text && text !== item.text) onRewrite(text);
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
          <Act label="todoDrop" title={item.text} sign="×" onAct={() => onChange(null)} />
        </>
      )}
    </li>
  );
}

function Addition({ hasSteps, onAdd }: { hasSteps: boolean; onAdd: (text: string) => void }) {
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(hasSteps);
  // Without a plan a line is enough to begin one.
  if (!isOpen && !hasSteps) return <button type="button" className="quiet" onClick={() => setOpen(true)}>{`＋ ${word("todoAdd")}`}</button>;
  const add = (event: { preventDefault: () => void }): void => {
    event.preventDefault();
    if (text.trim()) onAdd(text.trim());
    setText("");
  };
  return (
    <form onSubmit={add}>
      <input type="text" maxLength={MAX_CHARS} value={text} autoFocus={!hasSteps} aria-label={word("todoAdd")} placeholder={word("todoAdd")}
        onChange={(event) => setText(event.target.value)} />
      <button type="submit" className="quiet" aria-label={word("todoAdd")}>+</button>
    </form>
  );
}
