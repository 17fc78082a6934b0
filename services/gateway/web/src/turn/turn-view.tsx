// One turn of the thread: the question, the trace, the answer and what can be done with it.
import { useEffect, useRef, useState } from "react";

import { Answer } from "../answer/answer";
import { MissingData, Removed, Unchecked } from "../answer/gaps";
import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "../page/context";
import type { Tab } from "../page/layout";
import type { Item } from "../run/rows";
import type { Run } from "../run/run";
import { RememberedLine } from "../side/remembered";
import { Asked } from "./asked";
import { Changes, isScheduled } from "./changes";
import { ReadAs } from "./reading";
import { Suggestions } from "./suggestions";
import { Todo } from "./todo";
import { Tools } from "./tools";
import { Trace } from "./trace";
import type { Turn } from "./turn";

export function TurnView({ turn }: { turn: Turn }) {
  const { session, layout } = usePage();
  const { run } = useStore(turn);
  const root = useRef<HTMLElement>(null);
  useEffect(() => {
    if (session.arriving !== turn) return;
    session.arriving = null;
    root.current?.scrollIntoView({ block: "start" });
    // What had the focus may have gone with the turn in whose place this one stands.
    if (document.activeElement === document.body) root.current?.querySelector("summary")?.focus({ preventScroll: true });
  });
  const [isEdited, setEdited] = useState(false);
  const ask = (question: string): void => void session.ask(question);
  const open = (item: Item, tab: Tab = "sources"): void => {
    session.inspect(turn);
    layout.show(tab, `[data-number="${item.number}"]`);
  };
  return (
    <article ref={root} className="turn" data-run={run.id}>
      <Asked turn={turn} isEdited={isEdited} onLeave={() => setEdited(false)} />
      <ReadAs run={run} onAsk={ask} />
      <Trace turn={turn} />
      <Todo turn={turn} />
      <Answer run={run} onOpen={open} />
      <RememberedLine remembered={run.remembered} />
      <div className="after">{run.over && <Conclusion turn={turn} onAsk={ask} onEdit={() => setEdited(true)} />}</div>
    </article>
  );
}

function Conclusion({ turn, onAsk, onEdit }: { turn: Turn; onAsk: (question: string) => void; onEdit: () => void }) {
  const { run } = turn;
  return (
    <>
      <Choices run={run} onAsk={onAsk} />
      <MissingData run={run} onAsk={onAsk} /><Removed run={run} /><Unchecked run={run} />
      <Failure run={run} />
      {turn.problem && <p><span className="chip bad" role="alert">{turn.problem}</span></p>}
      {isScheduled(run.id) && <Changes run={run.id} isAnswered={run.text !== ""} />}
      {run.text && <Tools turn={turn} onEdit={onEdit} />}
      <Suggestions run={run} onAsk={onAsk} />
    </>
  );
}

// The questions that the planner offers where it could not tell which one was meant.
function Choices({ run, onAsk }: { run: Run; onAsk: (question: string) => void }) {
  const options = run.clarification?.options ?? [];
  if (!options.length) return null;
  return (
    <ul className="choices" aria-label={word("choose")}>{options.map((option) => (
      <li key={option}><button type="button" className="example" onClick={() => onAsk(option)}>{option}</button></li>
    ))}</ul>
  );
}

function Failure({ run }: { run: Run }) {
  if (!run.error && (run.text || run.state === "finished")) return null;
  // The reader's own stop is no failure.
  if (run.state === "stopped" && !run.error) return <p className="dim">{word("stoppedByYou")}</p>;
  const reason = [run.culprit, run.error || `${word("noAnswer")} (${word(run.state)})`].filter(Boolean);
  const said = run.error.startsWith(`${run.culprit}:`) ? run.error : reason.join(": ");
  return <p><span className="chip bad" role="alert">{said}</span></p>;
}
