// Which answers of the conversation rest on something, each a way to it.
import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "../page/context";
import type { Answered } from "../run/uses";

export function UsedBy({ isUsed }: { isUsed: (run: Answered) => boolean }) {
  const { session, layout } = usePage();
  useStore(session);
  const turns = session.turns.filter(({ run }) => run.over && isUsed(run));
  const go = (run: string): void => {
    const turn = document.querySelector<HTMLElement>(`.turn[data-run="${CSS.escape(run)}"]`);
    turn?.scrollIntoView({ block: "start" });
    const line = turn?.querySelector<HTMLElement>("summary");
    if (line) layout.turnTo(line);
  };
  return (
    <div className="used-by">
      <span className="dim">{word(turns.length ? "usedBy" : "usedByNone")}</span>
      {turns.map(({ run }) => <button key={run.id} type="button" className="quiet" title={run.question} onClick={() => go(run.id)}>{run.question}</button>)}
    </div>
  );
}
