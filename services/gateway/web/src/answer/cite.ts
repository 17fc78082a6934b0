// Citation chips, and the card that shows what stands behind one.
import { call, path } from "../base/api";
import { type Child, byId, el } from "../base/dom";
import type { Sheet, TablePage } from "../contract/types";
import { type Cell, cellIn, closest, passageOf, sentencesOf } from "../run/evidence";
import { computation, count, day, provenance } from "../base/format";
import type { Item } from "../run/rows";
import { kindOf } from "../run/run";
import { language, word } from "../base/words";

const SNIPPET = 320;
const PAGE = 1000;
const MAX_PAGES = 4;
const pages = new Map<string, Promise<TablePage>>();
const cut = (text: string, length = SNIPPET): string => (text.length > length ? `${text.slice(0, length).trimEnd()}…` : text);

export function titleOf(item: Item): string {
  if (item.passage) return item.passage.title || item.passage.id;
  if (item.sheet) return item.sheet.title;
  if (item.code) return item.purpose || firstLine(item.code.code);
  return `${word("missing")}: ${item.missing?.subject ?? ""}`;
}

const firstLine = (code: string): string => code.split("\n").find((line) => line.trim() && !/^\s*(#|import |from )/.test(line)) ?? code;

// A page as both languages say it; "" for what has no pages.
const pageOf = (page: number): string => (page ? (language() === "zh" ? `第 ${page} ${word("page")}` : `${word("page")} ${page}`) : "");

// Where an item is from, in one line.
export function originOf(item: Item): string {
  if (item.passage) return [item.passage.source, pageOf(item.passage.page), day(item.passage.publish_time)].filter(Boolean).join(" · ");
  if (item.sheet) {
    const { sources, asOf } = provenance(item.sheet);
    const size = `${count(item.sheet.rows)} ${word("rows")} × ${item.sheet.columns.length} ${word("columns")}`;
    return [item.variable, size, computation(item), sources, asOf && `${word("asOf")} ${asOf}`].filter(Boolean).join(" · ");
  }
  if (item.code) return `${word("code")} · ${item.code.ok ? word("ok") : word("failed")}`;
  return item.missing?.detail ?? "";
}

// The cell of a whole sheet behind a sentence, from at most 4,000 rows; null when there is none.
async function cellOf(sheet: Sheet, sentence: string): Promise<Cell | null> {
  let other: Cell | null = null;
  for (let index = 0; index < MAX_PAGES && index * PAGE < Number(sheet.rows); index += 1) {
    const url = `${path("tables", sheet.id)}?offset=${index * PAGE}&limit=${PAGE}`;
    const page = pages.get(url) ?? call<TablePage>(url);
    pages.set(url, page);
    const cell = cellIn(await page, sentence);
    if (cell?.dated) return cell;
    other ??= cell;
  }
  return other;
}

// The part of a material that the sentence before a chip rests on; its beginning when none stands out.
function excerptOf(item: Item, sentence: string): HTMLElement | null {
  if (item.passage) {
    const { text } = item.passage;
    return el("blockquote", {}, cut(passageOf(text, sentence) || text, 2 * SNIPPET));
  }
  if (item.sheet) {
    const columns = item.sheet.columns.map((column) => `${column.name}${column.unit ? ` (${column.unit})` : ""}`);
    const place = el("p", { class: "mono" }, cut(columns.join(", ")));
    const show = (cell: Cell | null): void => {
      if (cell) place.replaceChildren(`${cell.day} · ${cell.column}: ${cell.value}`);
    };
    cellOf(item.sheet, sentence).then(show).catch(() => {});
    return place;
  }
  if (!item.code) return null;
  const { code, stdout, result } = item.code;
  const printed = closest([stdout, result].join("\n").split("\n"), sentence);
  return el("pre", {}, cut([printed, code, printed ? "" : stdout, printed ? "" : result].filter(Boolean).join("\n\n")));
}

export function chip(number: number, item: Item | undefined, onOpen: (item: Item) => void): HTMLElement {
  const kind = item ? kindOf(item) : "unknown";
  const label = item ? `${word(kind)} ${number}: ${titleOf(item)}` : `${number}: ${word("unknown")}`;
  const made = el("button", {
    type: "button", class: `cite ${kind}`, "aria-label": label, data: { cite: number },
  }, String(number));
  if (!item) return made;
  carded(made, () => [
    el("div", { class: `kind ${kindOf(item)}` }, `[${number}] ${word(kindOf(item))}`),
    el("strong", {}, titleOf(item)), el("div", { class: "dim" }, originOf(item)), excerptOf(item, sentenceAt(made)) ?? "",
  ]);
  made.addEventListener("click", () => { hideCard(); onOpen(item); });
  return made;
}

// What stands before a chip in its block, from the last end of a sentence on.
function sentenceAt(made: HTMLElement): string {
  const block = made.closest("p, li, td, th, blockquote, h1, h2, h3, h4, h5, h6") ?? made.parentElement;
  if (!block) return "";
  const before = document.createRange();
  before.setStart(block, 0);
  before.setEndBefore(made);
  return sentencesOf(before.toString()).at(-1) ?? "";
}

// Shows the hover card with what `build` gives while the pointer or the focus is on an element.
export function carded(made: HTMLElement, build: () => Child[]): void {
  for (const name of ["mouseenter", "focus"]) made.addEventListener(name, () => showCard(made, build()));
  for (const name of ["mouseleave", "blur"]) made.addEventListener(name, hideCard);
}

function showCard(anchor: HTMLElement, content: Child[]): void {
  const card = byId("card");
  card.replaceChildren(...content.filter((part): part is Node | string => Boolean(part)));
  card.hidden = false;
  anchor.setAttribute("aria-describedby", "card");
  place(card, anchor);
}

function place(card: HTMLElement, anchor: Element): void {
  const at = anchor.getBoundingClientRect();
  const size = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - size.width - 8));
  const below = at.bottom + 6 + size.height < innerHeight;
  card.style.left = `${left}px`;
  card.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)}px`;
}

// Returns whether there was a card to hide.
export function hideCard(): boolean {
  const wasShown = !byId("card").hidden;
  byId("card").hidden = true;
  return wasShown;
}

// When the text scrolls, the card goes with its chip, or away when the reader has left that.
export function moveCard(): void {
  const anchor = document.querySelector(":is(.cite, .doubt):hover, :is(.cite, .doubt):focus-visible");
  if (anchor) place(byId("card"), anchor);
  else hideCard();
}
