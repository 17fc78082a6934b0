// A cell of an answer's code that the reader changes and runs again: what it gives now stands below what is recorded.
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";

import { FigureView, HtmlFrame } from "../answer/figures/figure";
import type { Drawing } from "../answer/figures/plotly";
import { asProblem, path, post } from "../base/api";
import { announce } from "../base/announce";
import { isComposing } from "../base/composition";
import { duration } from "../base/format";
import { counted, word } from "../base/words";
import type { CellResult } from "../contract/types";
import type { CodeItem } from "../run/rows";
import { Section } from "./printed";

const MOST_LINES = 24;

export function CellAgain({ run, item }: { run: string; item: CodeItem }) {
  const [isOpen, setOpen] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const wasOpen = useRef(false);
  useEffect(() => {
    if (!isOpen && wasOpen.current) opener.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);
  if (!isOpen) return <button ref={opener} type="button" className="quiet change-cell" onClick={() => setOpen(true)}>{word("changeCell")}</button>;
  return <Editor run={run} item={item} onLeave={() => setOpen(false)} />;
}

function Editor({ run, item, onLeave }: { run: string; item: CodeItem; onLeave: () => void }) {
  const [code, setCode] = useState(item.code.code);
  const [result, setResult] = useState<CellResult | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      const found = await post<CellResult>(path("runs", run, "cells"), { number: item.number, code });
      setResult(found);
      setProblem("");
      announce(word(`cell_${found.status}`));
    } catch (thrown) {
      const { culprit, message } = asProblem(thrown);
      setProblem(culprit ? `${culprit}: ${message}` : message);
    } finally {
      setBusy(false);
    }
  };
  const act = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && !isComposing(event)) {
      event.preventDefault(); // on the page it stops the run
      event.stopPropagation();
      onLeave();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      field.current?.form?.requestSubmit();
    }
  };
  return (
    <form className="cell-again" onSubmit={(event) => void send(event)} onKeyDown={act}>
      <textarea ref={field} className="mono" spellCheck={false} aria-label={word("cellCode")} value={code} rows={Math.min(MOST_LINES, code.split("\n").length + 1)}
        onChange={(event) => setCode(event.target.value)} />
      <div className="choice">
        <button type="button" onClick={onLeave}>{word("close")}</button>
        <button type="submit" className="primary" aria-busy={isBusy || undefined}>{word(isBusy ? "runningCell" : "runCell")}</button>
      </div>
      {problem && <p className="chip bad" role="alert">{problem}</p>}
      {result && <Given run={run} result={result} />}
    </form>
  );
}

function Given({ run, result }: { run: string; result: CellResult }) {
  const parts: [string, string][] = [[word("output"), result.stdout], [word("result"), result.result], [word("errorsOutput"), result.stderr], [word("traceback"), result.traceback]];
  const shown = parts.filter(([, text]) => text);
  return (
    <section className="cell given" aria-label={word("nowGiven")}>
      <div className="kind"><span className="purpose">{word("nowGiven")}</span><span className="spacer" />
        <span className={result.status === "ok" ? "ok" : "failed"}>{word(`cell_${result.status}`)}</span><span className="ms">{duration(result.duration_ms)}</span></div>
      {result.cause && <p className="dim">{result.cause}</p>}
      {result.missing.length > 0 && <p className="dim">{`${word("tablesGone")} ${result.missing.join(", ")}`}</p>}
      {shown.map(([title, text]) => <Section key={title} title={title} text={text} />)}
      {!shown.length && !result.figures.length && <p className="dim">{word("nothingPrinted")}</p>}
      {result.figures.map((figure, place) => <Shown key={place} run={run} place={place} figure={figure} />)}
      {result.left_out > 0 && <p className="dim">{counted(result.left_out, "leftOut")}</p>}
    </section>
  );
}

function Shown({ run, place, figure }: { run: string; place: number; figure: CellResult["figures"][number] }) {
  const name = `${word("figure")} ${place + 1}`;
  const [drawing] = useState(() => (figure.media_type === "application/json" ? JSON.parse(figure.content) as Drawing : null));
  if (figure.media_type === "text/html") return <HtmlFrame title={name} html={figure.content} />;
  // A picture can do nothing from within an image, whatever it holds.
  if (!drawing) return <img className="shown-picture" alt={name} src={`data:${figure.media_type};base64,${figure.content}`} />;
  return <FigureView runId={run} figure={{ id: name, title: "" }} sources="" drawing={drawing} />;
}
