// What the panel's tabs show of a run: its sources, its tables, its code, its steps.
import { useState } from "react";

import { Title, originOf } from "../answer/material";
import { CellAgain } from "./cell-again";
import { asProblem, path } from "../base/api";
import { count, duration } from "../base/format";
import { plural, word } from "../base/words";
import type { Sheet, Usage } from "../contract/types";
import type { CodeItem, Item } from "../run/rows";
import { type Run, kindOf } from "../run/run";
import { addressOf, saveAnswer } from "../turn/export";
import { TraceRow } from "../turn/rows";
import { Section } from "./printed";

const SNIPPET = 600;

export function Sources({ run }: { run: Run }) {
  const isCited = (item: Item): boolean => run.cited.has(item.number);
  const ordered = run.items.sort((a, b) => Number(isCited(b)) - Number(isCited(a)) || a.number - b.number);
  return ordered.map((item) => {
    const kind = kindOf(item);
    return (
      <section key={item.number} className={`source ${kind}`} data-number={item.number} tabIndex={-1}>
        <div className="kind">
          {`[${item.number}] ${word(kind)}`}<span className="spacer" />
          {run.over && kind !== "missing" && <span className="dim">{word(isCited(item) ? "cited" : "uncited")}</span>}
        </div>
        <strong><Title item={item} /></strong><div className="dim">{originOf(item)}</div>
        <Detail item={item} />
      </section>
    );
  });
}

function Detail({ item }: { item: Item }) {
  if (item.passage) return <Quote text={item.passage.text} />;
  if (item.code) return <div className="short"><Cell item={item as CodeItem} /></div>;
  return item.sheet ? <Columns sheet={item.sheet} /> : null;
}

function Columns({ sheet }: { sheet: Sheet }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table className="columns"><tbody>{sheet.columns.map((column) => (
        <tr key={column.name}>
          <td className="mono">{column.name}</td>
          {[column.unit, column.source, column.as_of].map((text, place) => <td key={place}>{text || "–"}</td>)}
        </tr>
      ))}</tbody></table>
    </div>
  );
}

function Quote({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(text.length <= SNIPPET);
  if (isWhole) return <blockquote>{text}</blockquote>;
  return <blockquote>{`${text.slice(0, SNIPPET)}… `}<button type="button" className="quiet" onClick={() => setWhole(true)}>{word("more")}</button></blockquote>;
}

export function Code({ run }: { run: Run }) {
  return <><CodeFiles run={run} /><Cells run={run} /></>;
}

// All cells of a run as files to go on with.
function CodeFiles({ run }: { run: Run }) {
  const [problem, setProblem] = useState("");
  if (!run.over || !run.text || !run.of("code").length) return null;
  const save = (): void => void saveAnswer(run.id, "ipynb").then(() => setProblem(""), (thrown: unknown) => setProblem(asProblem(thrown).message));
  return (
    <p className="choice code-files">
      <button type="button" className="quiet" onClick={save}>{word("export_ipynb")}</button>
      <a href={addressOf(run.id, "py")} download>{word("export_py")}</a>
      {problem && <span className="chip bad" role="alert">{problem}</span>}
    </p>
  );
}

function Cells({ run }: { run: Run }) {
  return run.of("code").map((item) => {
    const state = item.code.ok ? "ok" : "failed";
    return (
      <section key={item.number} className="source code" data-number={item.number}>
        <div className="kind">
          <span className="purpose">{`[${item.number}] ${item.purpose}`}</span><span className="spacer" />
          <span className={state}>{word(state)}</span><span className="ms">{duration(Number(item.code.duration_ms))}</span>
        </div>
        <Cell item={item} />
        {run.over && !item.code.run_id && <CellAgain key={run.id} run={run.id} item={item} />}
      </section>
    );
  });
}

function Cell({ item }: { item: CodeItem }) {
  const { code: source, stdout, result, traceback } = item.code;
  const parts: [string, string][] = [[word("output"), stdout], [word("result"), result], [word("traceback"), traceback]];
  return <div className="cell"><Section title="" text={source} language="python" />{parts.filter(([, text]) => text).map(([title, text]) => <Section key={title} title={title} text={text} />)}</div>;
}

// Tokens read and written, with what of them was cheaper or is not seen, and the cost where prices are known.
export function usageOf({ prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cost, estimated }: Usage): string {
  const part = (tokens: string, name: string): string => (Number(tokens) ? ` (${count(tokens)} ${word(name)})` : "");
  const read = `${count(prompt_tokens)}${part(cached_tokens, "cachedTokens")}`;
  const written = `${count(completion_tokens)}${part(reasoning_tokens, "reasoningTokens")}`;
  const price = Number(cost) ? ` · ${word("cost")} ${Number(cost).toPrecision(3)}` : "";
  return `${read} + ${written} ${plural("tokens", Number(completion_tokens))}${estimated ? `, ${word("estimated")}` : ""}${price}`;
}

export function Steps({ run }: { run: Run }) {
  const facts = [run.id, run.model, run.usage ? usageOf(run.usage) : ""].filter(Boolean).join(" · ");
  return (
    <>
      {run.rows.map((row, place) => <TraceRow key={place} row={row} run={run} />)}
      <p className="dim">{facts} <a href={path("runs", run.id)} target="_blank" rel="noreferrer">{word("record")}</a></p>
    </>
  );
}
