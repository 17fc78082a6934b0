// The answer: Markdown's tree as elements, with chips, live tables and figures where the text refers to them.
import { el } from "../base/dom";
import type { CodeRecord, Finding } from "../contract/types";
import type { CodeItem, Item } from "../run/rows";
import type { Run } from "../run/run";
import { carded, chip } from "./cite";
import { brokenFigure, figureOf } from "./figure";
import { provenance } from "../base/format";
import { type Block, type Node as Tree, type Reference, isCite, isReference, parse, settled } from "./markdown";
import { type Part, kindOfFinding, marked, parts, unmarked } from "../run/marks";
import { LiveTable } from "./table";
import { word } from "../base/words";

const PLAIN = new Set<string>([
  "p", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
  "br", "table", "thead", "tbody", "tr", "th", "td", "span",
]);

// Where the data of a cell come from: the sources of the tables that its code names.
function sourcesOf(run: Run, code: CodeRecord): string {
  const names = new Set<string>(code.code.match(/\bsheet_\d+\b/g) ?? []);
  const items = [...names].map((name) => run.sheet(name)).filter((item) => item !== undefined);
  const found = items.map((item) => provenance(item.sheet));
  const sources = [...new Set(found.map((one) => one.sources).filter(Boolean))].join(", ");
  const asOf = found.map((one) => one.asOf).sort().at(-1);
  return [sources && `${word("source")}: ${sources}`, asOf && `${word("asOf")} ${asOf}`].filter(Boolean).join(" · ");
}

export class AnswerView {
  readonly root = el("div", { class: "answer" });
  readonly #run: Run;
  readonly #onOpen: (item: Item) => void;
  readonly #drawn: { key: string; elements: (Element | Text)[] }[] = [];

  constructor(run: Run, onOpen: (item: Item) => void) {
    this.#run = run;
    this.#onOpen = onOpen;
  }

  // Redraws the blocks that changed. While the text grows these are the last ones, so live parts stay alive.
  update(): void {
    this.root.classList.toggle("draft", this.#run.draft && !this.#run.over);
    const blocks = parse(this.#run.over ? marked(this.#run.text, this.#run.findings) : settled(this.#run.text));
    const keys = blocks.map((block) => `${this.#known(block)}\n${block.source}`);
    let same = 0;
    while (same < keys.length && keys[same] === this.#drawn[same]?.key) same += 1;
    for (const old of this.#drawn.splice(same)) for (const element of old.elements) element.remove();
    for (let i = same; i < blocks.length; i += 1) {
      const elements = blocks[i]!.nodes.flatMap((node) => this.#element(node));
      this.root.append(...elements);
      this.#drawn.push({ key: keys[i]!, elements });
    }
  }

  // Whether what the block cites is there yet: a chip without its material is drawn again when it comes.
  #known(block: Block): string {
    const numbers = [...block.source.matchAll(/\[(\d{1,3})/g)].map((found) => this.#run.material.has(Number(found[1])));
    const names = [...block.source.matchAll(/\{\{\w+:([^{}\n]+)\}\}/g)].map(
      ([, name = ""]) => Boolean(this.#run.sheet(name) ?? this.#run.figure(name)),
    );
    return [...numbers, ...names].join();
  }

  #element(node: Tree): (Element | Text)[] {
    if (typeof node === "string") return parts(node).map((part) => this.#part(part));
    if (isReference(node)) return [this.#reference(node)];
    if (isCite(node)) return [chip(node.number, this.#run.material.get(node.number), this.#onOpen)];
    const children = node.children.flatMap((child) => this.#element(child));
    if (node.tag === "x-table") return [el("figure", { class: "typed" }, el("div", { class: "scroll", tabindex: "0" }, children))];
    if (node.tag === "a") {
      const away = /^https?:/i.test(node.href ?? "");
      const { href, title } = node;
      return [el("a", { href, title, rel: "noopener noreferrer", target: away ? "_blank" : null }, children)];
    }
    if (!PLAIN.has(node.tag)) return [el("span", {}, children)];
    const tag = node.tag as keyof HTMLElementTagNameMap;
    return [el(tag, { start: node.start, class: node.align ? `align-${node.align}` : null }, children)];
  }

  // Words, words that a check has marked, or the sign behind a sentence that one has.
  #part(part: Part): Element | Text {
    if (typeof part === "string") return document.createTextNode(part);
    const finding = this.#run.findings[part.index];
    if (!finding) return document.createTextNode(part.text ?? "");
    const kind = kindOfFinding(finding);
    const sign = kind === "unchecked" ? "?" : "⚠";
    const label = `${word(`doubt_${kind}`)}: ${finding.detail}`;
    const made = el("button", {
      type: "button", class: `doubt ${kind}${part.text ? "" : " point"}`, "aria-label": `${part.text ?? ""} ${sign} ${label}`,
    }, part.text ?? sign);
    const cited = finding.cited.length ? `${word("cited")}: ${finding.cited.map((number) => `[${number}]`).join("")}` : "";
    carded(made, () => [
      el("div", { class: "kind missing" }, `${sign} ${word(`doubt_${kind}`)}`), el("div", {}, finding.detail),
      el("div", { class: "dim" }, cited),
    ]);
    return made;
  }

  #reference({ kind, name: written }: Reference): Element {
    const name = unmarked(written);
    const broken = /^code_(\d+)$/.exec(name);
    const record = kind === "figure" && broken ? this.#run.material.get(Number(broken[1])) : null;
    if (record?.code) return brokenFigure(record as CodeItem, () => this.#onOpen(record));
    if (kind === "table") {
      const item = this.#run.sheet(name);
      if (item) return new LiveTable(item).root;
    } else {
      const found = this.#run.figure(name);
      if (found) return figureOf(this.#run.id, found.figure, sourcesOf(this.#run, found.item.code), () => this.#onOpen(found.item));
    }
    return el("span", { class: "chip bad", data: { unknown: name } }, `${kind} ${name}: ${word("gone")}`);
  }

}

// How many statements the checks could not decide; each has its sign in the text.
export function uncheckedChip(run: Run): HTMLElement | null {
  const open = run.findings.filter((finding: Finding) => kindOfFinding(finding) === "unchecked");
  if (!open.length) return null;
  return el("div", { class: "gaps", role: "list" },
    el("span", { class: "chip", role: "listitem" }, `${word("doubt_unchecked")}: ${open.length}`));
}

// One chip per citation that named nothing and was taken out of the text, and per section that a report lacks.
export function removedChips(run: Run): HTMLElement | null {
  const placeless = new Set(["unresolved", "section"]);
  const gone = run.findings.filter((finding: Finding) => placeless.has(kindOfFinding(finding)) && finding.start === finding.end);
  if (!gone.length) return null;
  return el("div", { class: "gaps", role: "list" }, gone.map((finding) =>
    el("span", { class: "chip bad", role: "listitem" }, `${word(`doubt_${kindOfFinding(finding)}`)}: ${finding.text.replace(/^#+ /, "")}`)));
}

// One chip per thing that was asked for and not found, and how to bring it.
export function missingChips(run: Run): HTMLElement | null {
  const items = run.of("missing");
  if (!items.length) return null;
  const hint = el("span", { class: "dim", role: "listitem" }, word("bringTable"));
  return el("div", { class: "gaps", role: "list" }, [...items.map(({ missing }) => {
    const what = [missing.subject, missing.aspect, missing.period].filter(Boolean).join(" · ");
    const nearest = missing.nearest.length ? ` (${word("nearest")}: ${missing.nearest.join(", ")})` : "";
    const reason = (missing.reason ?? "").replace("MISSING_REASON_", "").toLowerCase().replaceAll("_", " ");
    const text = `${word("missing")}: ${what} – ${reason}${nearest}`;
    return el("span", { class: "chip warn", role: "listitem", title: missing.detail }, text);
  }), hint]);
}
