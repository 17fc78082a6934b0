// The run's todo list: shown as the model and the reader change it, editable while the run runs.
import { useState } from "react";

import { word } from "../base/words";
import type { TodoItem } from "../contract/types";
import type { Turn } from "./turn";

const MAX_ITEMS = 20;
const MAX_CHARS = 200;

export function Todo({ turn }: { turn: Turn }) {
  const { run } = turn;
  if (!run.todo.length && (run.over || !run.last)) return null;
  const change = (place: number, item: TodoItem | null): void =>
    void turn.plan(run.todo.flatMap((known, i) => (i === place ? (item ? [item] : []) : [known])));
  return (
    <section className="todo" aria-label={word("todo")}>
      <span className="dim">{word("todo")}</span>
      <ul className="entries">
        {run.todo.map((item, place) => <Entry key={`${place} ${item.text}`} item={item} isFixed={run.over} onChange={(changed) => change(place, changed)} />)}
      </ul>
      {!run.over && <Addition onAdd={(text) => {
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

function Addition({ onAdd }: { onAdd: (text: string) => void }) {
  const [text, setText] = useState("");
  const add = (event: { preventDefault: () => void }): void => {
    event.preventDefault();
    if (text.trim()) onAdd(text.trim());
    setText("");
  };
  return (
    <form onSubmit={add}>
      <input type="text" maxLength={MAX_CHARS} value={text} aria-label={word("todoAdd")} placeholder={word("todoAdd")}
        onChange={(event) => setText(event.target.value)} />
      <button type="submit" className="quiet" aria-label={word("todoAdd")}>+</button>
    </form>
  );
}
