// The answer: Markdown's tree as elements, with chips, live tables and figures where the text refers to them.
import { type ReactNode, memo } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "../page/context";
import type { Tab } from "../page/layout";
import { kindOfFinding, marked, parts, unmarked } from "../run/marks";
import type { CodeItem, Item } from "../run/rows";
import type { Run } from "../run/run";
import { Carded } from "./card";
import { Cite } from "./cite";
import { drawElement } from "./elements";
import { BrokenFigure, FigureView } from "./figures/figure";
import { type Block, type Node as Tree, type Reference, isCite, isReference, parse, settled } from "./markdown";
import { sourcesOf } from "./material";
import { LiveTable } from "./tables/table";

export interface AnswerProps {
  run: Run;
  // Shows a material in the panel, among the sources unless another tab is named.
  onOpen: (item: Item, tab?: Tab) => void;
}

export function Answer({ run, onOpen }: AnswerProps) {
  const { preferences } = usePage();
  useStore(preferences);
  const blocks = parse(run.over ? marked(run.text, run.findings) : settled(run.text));
  return (
    <div className={`answer${run.draft && !run.over ? " draft" : ""}`}>
      {blocks.map((block, place) => (
        <AnswerBlock key={place} block={block} signature={`${preferences.language}\n${known(run, block)}\n${block.source}`} run={run} onOpen={onOpen} />
      ))}
    </div>
  );
}

// Drawn again when its text or what it cites has changed: while an answer grows this is the last block.
const AnswerBlock = memo(
  function AnswerBlock({ block, run, onOpen }: AnswerProps & { block: Block; signature: string }) {
    return block.nodes.map((node, place) => <Element key={place} node={node} run={run} onOpen={onOpen} />);
  },
  (before, after) => before.signature === after.signature,
);

// Whether what the block cites is there yet: a chip without its material is drawn again when it comes.
function known(run: Run, block: Block): string {
  const numbers = [...block.source.matchAll(/\[(\d{1,3})/g)].map((found) => run.material.has(Number(found[1])));
  const names = [...block.source.matchAll(/\{\{\w+:([^{}\n]+)\}\}/g)].map(
    ([, name = ""]) => Boolean(run.sheet(name) ?? run.figure(name) ?? failedCode(run, name)),
  );
  return [...numbers, ...names].join();
}

// The record of the code whose figure failed, for the name that stands in the figure's place.
function failedCode(run: Run, name: string): CodeItem | undefined {
  const number = /^code_(\d+)$/.exec(name)?.[1];
  const record = number === undefined ? undefined : run.material.get(Number(number));
  return record?.code ? (record as CodeItem) : undefined;
}

function Element({ node, run, onOpen }: AnswerProps & { node: Tree }): ReactNode {
  if (typeof node === "string") return <Words text={node} run={run} />;
  if (isReference(node)) return <Referred reference={node} run={run} onOpen={onOpen} />;
  if (isCite(node)) return <Cite number={node.number} item={run.material.get(node.number)} onOpen={onOpen} />;
  const children = node.children.map((child, place) => <Element key={place} node={child} run={run} onOpen={onOpen} />);
  return drawElement(node, children);
}

// Words, words that a check has marked, or the sign behind a sentence that one has.
function Words({ text, run }: { text: string; run: Run }) {
  return parts(text).map((part, place) => (
    typeof part === "string" ? part : <Doubt key={place} text={part.text} index={part.index} run={run} />
  ));
}

function Doubt({ text, index, run }: { text: string | undefined; index: number; run: Run }) {
  const finding = run.findings[index];
  if (!finding) return text ?? "";
  const kind = kindOfFinding(finding);
  const sign = kind === "unchecked" ? "?" : "⚠";
  const name = word(`doubt_${kind}`);
  const cited = finding.cited.length ? `${word("cited")}: ${finding.cited.map((number) => `[${number}]`).join("")}` : "";
  return (
    <Carded className={`doubt ${kind}${text ? "" : " point"}`} aria-label={`${text ?? ""} ${sign} ${name}: ${finding.detail}`} card={() => (
      <>
        <div className="kind missing">{`${sign} ${name}`}</div><div>{finding.detail}</div><div className="dim">{cited}</div>
      </>
    )}>{text ?? sign}</Carded>
  );
}

function Referred({ reference, run, onOpen }: AnswerProps & { reference: Reference }) {
  const name = unmarked(reference.name);
  const failed = reference.kind === "figure" ? failedCode(run, name) : undefined;
  if (failed) return <BrokenFigure item={failed} onCode={() => onOpen(failed, "code")} />;
  const sheet = reference.kind === "table" ? run.sheet(name) : undefined;
  if (sheet) return <LiveTable item={sheet} onData={() => onOpen(sheet, "data")} />;
  const found = reference.kind === "figure" ? run.figure(name) : null;
  if (found) {
    const sources = sourcesOf(run, found.item.code);
    return <FigureView runId={run.id} figure={found.figure} sources={sources} onCode={() => onOpen(found.item, "code")} />;
  }
  return <span className="chip bad" data-unknown={name}>{`${reference.kind} ${name}: ${word("gone")}`}</span>;
}
