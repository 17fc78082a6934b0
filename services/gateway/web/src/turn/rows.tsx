// The rows of a trace: calls of tools, thoughts, and what happened to the run itself.
import { type ReactNode, Suspense } from "react";

import { count, duration } from "../base/format";
import { counted, plural, word } from "../base/words";
import { readLater } from "../page/read-later";
import { readResult } from "../run/hits";
import { type MarkRow, type Row, type ThoughtRow, type ToolRow, isThought, isTool } from "../run/rows";
import type { Run } from "../run/run";
import { type CodeLanguage, Printed, Section } from "../side/printed";

// Traces are folded when a run is over: what leads from them to the panel is read with the first row that has any.
const Results = readLater(async () => (await import("./results")).Results);

const ICONS: Record<string, string> = { search: "⌕", fetch: "▤", data: "▦", catalogue: "☷", sql: "⋈", python: "λ", finish: "✓", think: "…", todo: "☑", recall: "↺", delegate: "⑂" };
// One icon per kind of thought.
const THOUGHTS: Record<string, string> = {
  "argument decomposition": "⊢", "viewpoint attack": "⚔", "data insight": "◔", "logical attribution": "∴",
  restatement: "≡", reasoning: "✻", plain: "…",
};
const MARKS: Record<ToolRow["status"], string> = { "": "", ok: "✓", empty: "∅", failed: "✗", invalid: "!" };
const BEGINNING = 160;
const SHORT = 120;

export function TraceRow({ row, run }: { row: Row; run: Run }) {
  if (isTool(row)) return <ToolCallRow row={row} run={run} />;
  return isThought(row) ? <Thought row={row} /> : <Mark row={row} />;
}

// A model's own thought is long: only its beginning is shown until it is opened.
function Thought({ row }: { row: ThoughtRow }) {
  if (row.kind === "reasoning") {
    return (
      <details className="row" data-kind="reasoning">
        <summary>
          <span className="icon" aria-hidden>{THOUGHTS.reasoning}</span><span className="tool">{word("reasoning")}</span>
          <span className="intent">{row.thought.slice(0, BEGINNING)}</span>
        </summary>
        <Printed text={row.thought} />
      </details>
    );
  }
  const kind = row.kind || "plain";
  return (
    <div className="row thought" data-kind={kind}>
      <span className="icon" aria-hidden title={nameOfThought(kind)}>{THOUGHTS[row.kind] ?? ICONS.think}</span>
      <span className="intent">{row.thought}</span><span className="dim">{row.kind && nameOfThought(row.kind)}</span>
    </div>
  );
}

// Kinds that the page has no word for are shown as the model named them.
function nameOfThought(kind: string): string {
  const key = `thought_${kind.replaceAll(" ", "_")}`;
  const name = word(key);
  return name === key ? kind : name;
}

function ToolCallRow({ row, run }: { row: ToolRow; run: Run }) {
  const isRunning = !row.status;
  const { hits, text } = readResult(row.content);
  return (
    <details className="row" data-tool={row.tool}>
      <summary>
        <span className="icon" aria-hidden>{ICONS[row.tool] ?? "•"}</span><span className="tool">{row.tool}</span>
        <span className="intent">{row.intent}</span><span className="args dim mono">{shortInputOf(row)}</span>
        {row.isCached && <span className="state cached" title={word("cachedResult")}>{word("cachedTokens")}</span>}
        {isRunning ? <span className="spin" role="img" aria-label={word("running")} />
          : <span className={`state ${row.status}`}>{`${MARKS[row.status]} ${word(row.status).toLowerCase()}`}</span>}
        <span className="ms">{isRunning ? "" : duration(row.ms)}</span>
      </summary>
      <SubRun row={row} />
      <Section title={word("input")} {...inputOf(row)} />
      {hits.length + row.material.length > 0 && <Suspense><Results row={row} run={run} hits={hits} /></Suspense>}
      {text && <Section title={word("result")} text={text} />}
    </details>
  );
}

// The run that a sub-question became; nothing for other rows.
function SubRun({ row }: { row: ToolRow }) {
  const id = row.tool === "delegate" && row.content ? runOf(row.content) : "";
  return id ? <a className="child" href={`?child=1#run=${encodeURIComponent(id)}`} target="_blank" rel="noreferrer">{word("subRun")}</a> : null;
}

function runOf(content: string): string {
  try {
    return (JSON.parse(content.split("\n")[0] ?? "") as { run_id?: string }).run_id ?? "";
  } catch {
    return "";
  }
}

const Happening = ({ icon, children, ...data }: { icon: string; children: ReactNode; [name: `data-${string}`]: string }) =>
  <div className="row mark" {...data}><span className="icon" aria-hidden>{icon}</span>{children}</div>;

// What happened to the run itself: its window was made smaller, it was resumed.
function Mark({ row }: { row: MarkRow }) {
  switch (row.mark) {
    case "replaced":
      return <Happening icon="↻" data-why={row.why}>{word(`replaced_${row.why}`)}</Happening>;
    case "resumed":
      return <Happening icon="▶">{word("resumed")}</Happening>;
    case "report":
      return <Happening icon="☰" data-form="report">{word("as_report")}</Happening>;
    case "capped":
      return <Happening icon="⊤">{word("capped")}<span className="dim">{row.text}</span></Happening>;
    case "staged":
      return <StageMark row={row} />;
    default: {
      const tokens = `${count(row.tokens_before)} → ${count(row.tokens_after)} ${plural("tokens", Number(row.tokens_after))}`;
      const dropped = counted(row.dropped_steps.length, "steps");
      return <Happening icon="⇲">{word("compacted")}<span className="dim">{`${row.policy} · ${dropped} · ${tokens}`}</span></Happening>;
    }
  }
}

// A stage of the workflow in one line.
function StageMark({ row }: { row: MarkRow & { mark: "staged" } }) {
  const said = [row.text, row.sent.length && counted(row.sent.length, "sub_questions"),
    row.flaws.length && `${row.flaws.length} ${word("mended")}`].filter(Boolean).join(" · ");
  return (
    <Happening icon="▸" data-stage={row.name}>
      {word(`stage_${row.name}`)}<span className="dim" title={row.flaws.map((flaw) => flaw.fault).join(", ")}>{said}</span>
    </Happening>
  );
}

const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
// What a call was made with, as far as a line has room for it.
const shortInputOf = (row: ToolRow): string => Object.values(row.input).map(asText).join(" · ").replace(/\s+/g, " ").slice(0, SHORT);

function inputOf({ tool, input }: ToolRow): { text: string; language?: CodeLanguage } {
  if (typeof input.code === "string") return { text: input.code, language: "python" };
  if (tool === "sql" && typeof input.query === "string") return { text: input.query, language: "sql" };
  return { text: Object.entries(input).map(([name, value]) => `${name}: ${asText(value)}`).join("\n") };
}
