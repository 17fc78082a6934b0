// The run's todo list: shown as the model and the reader change it, editable while the run runs.
import { useRef, useState } from "react";

import { word } from "../base/words";
import type { TodoItem } from "../contract/types";
import type { Turn } from "./turn";

const MAX_ITEMS = 20;
const MAX_CHARS = 200;

export function Todo({ turn }: { turn: Turn }) {
  const { run } = turn;
  const root = useRef<HTMLElement>(null);
  if (!run.todo.length && (run.over || !run.last)) return null;
  const change = (place: number, item: TodoItem | null): void => {
    // What has the focus goes with its step.
    if (!item) root.current?.querySelector<HTMLElement>("form input")?.focus();
    void turn.plan(run.todo.flatMap((known, i) => (i === place ? (item ? [item] : []) : [known])));
  };
  return (
    <section ref={root} className="todo" aria-label={word("todo")}>
      {run.todo.length > 0 && <span className="dim">{word("todo")}</span>}
      <ul className="entries">
        {run.todo.map((item, place) => <Entry key={`${place} ${item.text}`} item={item} isFixed={run.over} onChange={(changed) => change(place, changed)} />)}
      </ul>
      {!run.over && <Addition hasSteps={run.todo.length > 0} onAdd={(text) => {
        if (run.todo.length < MAX_ITEMS) void turn.plan([...run.todo, { text, state: "open" }]);
      }} />}
      {turn.todoProblem && <p className="dim" role="status">{turn.todoProblem}</p>}
    </section>
  );
}

function Entry({ item, isFixed, onChange }: { item: TodoItem; isFixed: boolean; onChange: (item: TodoItem | null) => void }) {
  const isDone = item.state === "done";
  return (
    <li className={item.state}>
      <label>
        <input type="checkbox" checked={isDone} disabled={isFixed} aria-label={item.text}
          onChange={() => onChange({ ...item, state: isDone ? "open" : "done" })} />
        <span className="text">{item.text}</span>
      </label>
      {!isFixed && <button type="button" className="quiet" aria-label={`${word("todoDrop")}: ${item.text}`} onClick={() => onChange(null)}>×</button>}
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
