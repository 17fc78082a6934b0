// The answer: Markdown's tree as elements, with chips, live tables and figures where the text refers to them.
import { el } from "/static/dom.js";
import { chip } from "/static/cite.js";
import { figureOf } from "/static/figure.js";
import { parse, settled } from "/static/markdown.js";
import { LiveTable } from "/static/table.js";
import { word } from "/static/words.js";

const PLAIN = new Set([
  "p", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
  "br", "table", "thead", "tbody", "tr", "th", "td", "span",
]);

export class AnswerView {
  constructor(run, onOpen) {
    this.run = run;
    this.onOpen = onOpen;
    this.root = el("div", { class: "answer" });
    this.drawn = [];
  }

  // Redraws the blocks that changed. While the text grows these are the last ones, so live parts stay alive.
  update() {
    const blocks = parse(this.run.over ? this.run.text : settled(this.run.text));
    const keys = blocks.map((block) => `${this.#known(block)}\n${block.source}`);
    let same = 0;
    while (same < keys.length && keys[same] === this.drawn[same]?.key) same += 1;
    for (const old of this.drawn.splice(same)) for (const element of old.elements) element.remove();
    for (let i = same; i < blocks.length; i += 1) {
      const elements = blocks[i].nodes.map((node) => this.#element(node));
      this.root.append(...elements);
      this.drawn.push({ key: keys[i], elements });
    }
  }

  // Whether what the block cites is there yet: a chip without its material is drawn again when it comes.
  #known(block) {
    const numbers = [...block.source.matchAll(/\[(\d{1,3})/g)].map((found) => this.run.material.has(Number(found[1])));
    const names = [...block.source.matchAll(/\{\{\w+:([^{}\n]+)\}\}/g)].map(
      ([, name]) => Boolean(this.run.sheet(name) ?? this.run.figure(name)),
    );
    return [...numbers, ...names].join();
  }

  #element(node) {
    if (typeof node === "string") return document.createTextNode(node);
    const children = node.children.map((child) => this.#element(child));
    if (node.tag === "x-cite") return chip(node.number, this.run.material.get(node.number), this.onOpen);
    if (node.tag === "x-ref") return this.#reference(node);
    if (node.tag === "x-table") return this.#typed(node, children);
    if (node.tag === "a") {
      const away = /^https?:/i.test(node.href);
      return el("a", { href: node.href, rel: "noopener noreferrer", target: away ? "_blank" : null }, children);
    }
    if (!PLAIN.has(node.tag)) return el("span", {}, children);
    return el(node.tag, { start: node.start, class: node.align ? `align-${node.align}` : null }, children);
  }

  #reference({ kind, name }) {
    if (kind === "table") {
      const item = this.run.sheet(name);
      if (item) return new LiveTable(item.sheet, item.variable).root;
    } else {
      const found = this.run.figure(name);
      if (found) return figureOf(this.run.id, found.figure, () => this.onOpen(found.item));
    }
    return el("span", { class: "chip bad", data: { unknown: name } }, `${kind} ${name}: ${word("gone")}`);
  }

  #typed(node, children) {
    const flag = node.numbers ? el("figcaption", { class: "flag" }, `⚠ ${word("typed")}`) : null;
    return el("figure", { class: "typed" }, el("div", { class: "scroll" }, children), flag);
  }
}

// One chip per thing that was asked for and not found.
export function missingChips(run) {
  const items = run.of("missing");
  if (!items.length) return null;
  return el("div", { class: "gaps", role: "list" }, items.map(({ missing }) => {
    const what = [missing.subject, missing.aspect, missing.period].filter(Boolean).join(" · ");
    const nearest = missing.nearest?.length ? ` (${word("nearest")}: ${missing.nearest.join(", ")})` : "";
    const reason = (missing.reason ?? "").replace("MISSING_REASON_", "").toLowerCase().replaceAll("_", " ");
    const text = `${word("missing")}: ${what} – ${reason}${nearest}`;
    return el("span", { class: "chip warn", role: "listitem", title: missing.detail }, text);
  }));
}
