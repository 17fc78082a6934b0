// Citation chips, and what their cards show.
import { useQuery } from "@tanstack/react-query";

import { word } from "../base/words";
import { linesBehind, partsBehind, sentencesOf } from "../run/evidence";
import type { CodeItem, Item, SheetItem } from "../run/rows";
import { kindOf } from "../run/run";
import { useSheetViews } from "../side/sheet-views";
import { Carded } from "./card";
import { Title, originOf, pageOf, titleOf } from "./material";
import { findCells } from "./tables/sheet";

const SNIPPET = 320;
const cut = (text: string, length = SNIPPET): string => (text.length > length ? `${text.slice(0, length).trimEnd()}…` : text);

export function Cite({ number, item, onOpen }: { number: number; item: Item | undefined; onOpen: (item: Item) => void }) {
  const views = useSheetViews();
  if (!item) return <button type="button" className="cite unknown" aria-label={`${number}: ${word("unknown")}`} data-cite={number}>{number}</button>;
  const kind = kindOf(item);
  return (
    <Carded className={`cite ${kind}`} aria-label={`${word(kind)} ${number}: ${titleOf(item, views)}`} data-cite={number} onClick={() => onOpen(item)}
      card={(anchor) => (
        <>
          <div className={`kind ${kind}`}>{`[${number}] ${word(kind)}`}</div>
          <strong><Title item={item} /></strong><div className="dim">{originOf(item)}</div>
          <Excerpt item={item} sentence={sentenceAt(anchor)} />
        </>
      )}>{number}</Carded>
  );
}

// The parts of a material that the sentence before a chip rests on; its beginning when none stands out.
function Excerpt({ item, sentence }: { item: Item; sentence: string }) {
  if (item.passage) return <Passage text={item.passage.text} page={item.passage.page} sentence={sentence} />;
  if (item.sheet) return <CellExcerpt item={item as SheetItem} sentence={sentence} />;
  return item.code ? <pre>{printedOf(item as CodeItem, sentence)}</pre> : null;
}

// Each part with its page, as somebody would look it up in the file.
function Passage({ text, page, sentence }: { text: string; page: number; sentence: string }) {
  const parts = partsBehind(text, sentence);
  return (parts.length ? parts : [text]).map((part, place) => (
    <blockquote key={place}>{page > 0 && <small className="dim">{`${pageOf(page)} `}</small>}{cut(part, parts.length > 1 ? SNIPPET : 2 * SNIPPET)}</blockquote>
  ));
}

// The printed lines that are meant go before the code; without one the code is followed by all that it printed.
function printedOf({ code: { code, stdout, result } }: CodeItem, sentence: string): string {
  const printed = linesBehind([stdout, result].join("\n").split("\n"), sentence).map((line) => cut(line)).join("\n");
  const rest = [code, printed ? "" : stdout, printed ? "" : result].filter(Boolean).join("\n\n");
  return [printed, cut(rest)].filter(Boolean).join("\n\n");
}

function CellExcerpt({ item: { sheet }, sentence }: { item: SheetItem; sentence: string }) {
  const cells = useQuery({ queryKey: ["cells", sheet.id, sentence], queryFn: () => findCells(sheet, sentence), staleTime: Infinity, retry: false }).data ?? [];
  const columns = sheet.columns.map((column) => `${column.name}${column.unit ? ` (${column.unit})` : ""}`);
  if (!cells.length) return <p className="mono">{cut(columns.join(", "))}</p>;
  return cells.map(({ day, column, value }) => <p key={`${day} ${column}`} className="mono">{`${day} · ${column}: ${value}`}</p>);
}

// What stands before a chip in its block, from the last end of a sentence on.
function sentenceAt(anchor: HTMLElement): string {
  const block = anchor.closest("p, li, td, th, blockquote, h1, h2, h3, h4, h5, h6") ?? anchor.parentElement;
  if (!block) return "";
  const before = document.createRange();
  before.setStart(block, 0);
  before.setEndBefore(anchor);
  return sentencesOf(before.toString()).at(-1) ?? "";
}
