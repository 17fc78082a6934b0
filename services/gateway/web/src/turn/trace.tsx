// What the run does: one line, with all steps in sight while it works and folded when it is done.
import { useRef, useState } from "react";

import { count, duration } from "../base/format";
import { counted, plural, word } from "../base/words";
import type { Run } from "../run/run";
import { countSources } from "../run/uses";
import { TraceRow } from "./rows";
import type { Turn } from "./turn";

const FULL = 0.7;

export function Trace({ turn }: { turn: Turn }) {
  const { run } = turn;
  // Folded or not by the reader's hand; until then as the run has it.
  const [chosen, setChosen] = useState<boolean | null>(null);
  const line = useRef<HTMLElement>(null);
  // The buttons go when they have done their work: the focus stays in the trace.
  const act = (doIt: () => Promise<void>) => (): void => {
    line.current?.focus();
    void doIt();
  };
  const isOpen = chosen ?? (!run.over && turn.isFollowed);
  return (
    <section className={`trace${run.over ? " over" : ""}`} aria-label={word("trace")}>
      <details open={isOpen}>
        <summary ref={line} onClick={(event) => { event.preventDefault(); setChosen(!isOpen); }}>
          {!run.over && <span className="spin" role="img" aria-label={word("running")} />}
          <span className="intent">{run.over ? summaryOf(run) : turn.note || sayNow(run)}</span>
          {!run.over && run.calls.length > 0 && <span className="dim step">{word("stepNow").replace("{n}", String(run.calls.length))}</span>}
          <Fullness run={run} />
          <Clock run={run} />
        </summary>
        <div className="steps">{run.rows.map((row, place) => <TraceRow key={place} row={row} run={run} />)}</div>
      </details>
      <div className="acts">
        {!run.over && <button type="button" className="stop" disabled={turn.isBusy} onClick={act(() => turn.stop())}>{word("stop")}</button>}
        {run.resumable && <button type="button" className="resume" disabled={turn.isBusy} onClick={act(() => turn.resume())}>{word("resume")}</button>}
      </div>
    </section>
  );
}

// How full the model's window is.
function Fullness({ run }: { run: Run }) {
  if (run.over || !run.tokens) return null;
  const title = [count(run.tokens), run.window && `/ ${count(run.window)}`, plural("tokens", Number(run.window || run.tokens))].filter(Boolean).join(" ");
  return <meter min={0} max={1} high={FULL} value={run.window ? run.tokens / run.window : 0} title={title} aria-label={word("context")} />;
}

function Clock({ run }: { run: Run }) {
  const took = run.elapsed(Date.now());
  const said = took === null ? "" : run.over ? duration(took) : `${Math.round(took / 1000)} s`;
  return <span className="ms">{said}</span>;
}

function sayNow(run: Run): string {
  if (run.text && !run.waiting) return word(run.draft ? "drafting" : "writing");
  if (run.waiting?.message) return `${word("away")} ${run.waiting.culprit}`;
  if (run.waiting) return run.waiting.before ? `${word("queued")} ${run.waiting.before}` : word("waiting");
  if (!run.last) return word("waiting");
  return run.intent || word("thinking");
}

function summaryOf(run: Run): string {
  const calls = run.calls.length;
  const parts = [word(run.state), ...(run.protocol === "PROTOCOL_WORKFLOW" ? [word("mode_workflow")] : []), counted(calls, "steps")];
  const sheets = run.of("sheet").length;
  const sources = countSources(run);
  if (sources) parts.push(counted(sources, "n_sources"));
  if (sheets) parts.push(counted(sheets, "sheets"));
  return parts.join(" · ");
}
