// Citation chips, and the card that shows what stands behind one.
import { call, path } from "../base/api";
import { byId, el } from "../base/dom";
import { cellIn, closest, passageOf, sentencesOf } from "../run/evidence";
import { computation, count, day, provenance } from "../base/format";
import { kindOf } from "../run/run";
import { word } from "../base/words";

const SNIPPET = 320;
const PAGE = 1000;
const MAX_PAGES = 4;
const pages = new Map();
const cut = (text, length = SNIPPET) => (text.length > length ? `${text.slice(0, length).trimEnd()}…` : text);

export function titleOf(item) {
  const kind = kindOf(item);
  if (kind === "passage") return item.passage.title || item.passage.id;
  if (kind === "sheet") return item.sheet.title;
  if (kind === "code") return item.purpose || firstLine(item.code.code);
  return `${word("missing")}: ${item.missing.subject}`;
}

const firstLine = (code) => code.split("\n").find((line) => line.trim() && !/^\s*(#|import |from )/.test(line)) ?? code;

// Where an item is from, in one line.
export function originOf(item) {
  const kind = kindOf(item);
  if (kind === "passage") return [item.passage.source, day(item.passage.publish_time)].filter(Boolean).join(" · ");
  if (kind === "sheet") {
    const { sources, asOf } = provenance(item.sheet);
    const size = `${count(item.sheet.rows)} ${word("rows")} × ${item.sheet.columns.length} ${word("columns")}`;
    return [item.variable, size, computation(item), sources, asOf && `${word("asOf")} ${asOf}`].filter(Boolean).join(" · ");
  }
  if (kind === "code") return `${word("code")} · ${item.code.ok ? word("ok") : word("failed")}`;
  return item.missing.detail;
}

// The cell of a whole sheet behind a sentence, from at most 4,000 rows; null when there is none.
async function cellOf(sheet, sentence) {
  let other = null;
  for (let index = 0; index < MAX_PAGES && index * PAGE < Number(sheet.rows); index += 1) {
    const url = `${path("tables", sheet.id)}?offset=${index * PAGE}&limit=${PAGE}`;
    if (!pages.has(url)) pages.set(url, call(url));
    const cell = cellIn(await pages.get(url), sentence);
    if (cell?.dated) return cell;
    other ??= cell;
  }
  return other;
}

// The part of a material that the sentence before a chip rests on; its beginning when none stands out.
function excerptOf(item, sentence) {
  const kind = kindOf(item);
  if (kind === "passage") {
    const { text } = item.passage;
    return el("blockquote", {}, cut(passageOf(text, sentence) || text, 2 * SNIPPET));
  }
  if (kind === "sheet") {
    const columns = item.sheet.columns.map((column) => `${column.name}${column.unit ? ` (${column.unit})` : ""}`);
    const place = el("p", { class: "mono" }, cut(columns.join(", ")));
    const show = (cell) => cell && place.replaceChildren(`${cell.day} · ${cell.column}: ${cell.value}`);
    cellOf(item.sheet, sentence).then(show).catch(() => {});
    return place;
  }
  if (kind !== "code") return null;
  const { code, stdout, result } = item.code;
  const printed = closest([stdout, result].join("\n").split("\n"), sentence);
  return el("pre", {}, cut([printed, code, printed ? "" : stdout, printed ? "" : result].filter(Boolean).join("\n\n")));
}

export function chip(number, item, onOpen) {
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
function sentenceAt(made) {
  const block = made.closest("p, li, td, th, blockquote, h1, h2, h3, h4, h5, h6") ?? made.parentElement;
  const before = document.createRange();
  before.setStart(block, 0);
  before.setEndBefore(made);
  return sentencesOf(before.toString()).at(-1) ?? "";
}

// Shows the hover card with what `build` gives while the pointer or the focus is on an element.
export function carded(made, build) {
  for (const name of ["mouseenter", "focus"]) made.addEventListener(name, () => showCard(made, build()));
  for (const name of ["mouseleave", "blur"]) made.addEventListener(name, hideCard);
}

function showCard(anchor, content) {
  const card = byId("card");
  card.replaceChildren(...content);
  card.hidden = false;
  anchor.setAttribute("aria-describedby", "card");
  place(card, anchor);
}

function place(card, anchor) {
  const at = anchor.getBoundingClientRect();
  const size = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - size.width - 8));
  const below = at.bottom + 6 + size.height < innerHeight;
  card.style.left = `${left}px`;
  card.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)}px`;
}

export function hideCard() {
  byId("card").hidden = true;
}

// When the text scrolls, the card goes with its chip, or away when the reader has left that.
export function moveCard() {
  const anchor = document.querySelector(":is(.cite, .doubt):hover, :is(.cite, .doubt):focus-visible");
  if (anchor) place(byId("card"), anchor);
  else hideCard();
}
