// The right-hand panel: what an answer rests on, in four tabs.
import { path } from "../base/api";
import { originOf, titleOf } from "../answer/cite";
import { byId, el } from "../base/dom";
import { count, duration } from "../base/format";
import type { Usage } from "../contract/types";
import type { CodeItem, Item } from "../run/rows";
import { type Run, kindOf } from "../run/run";
import { LiveTable } from "../answer/table";
import { type MemoryPanel, markFact } from "./memory";
import type { Turn } from "../turn/turn";
import { rowOf } from "../turn/trace";
import { word } from "../base/words";

const TABS = ["sources", "data", "code", "trace", "memory"] as const;
type Tab = (typeof TABS)[number];
const SNIPPET = 600;

export class Panel {
  readonly memory: MemoryPanel;
  tab: Tab = "sources";
  turn: Turn | null = null;
  #key = "";
  // What had the focus when the panel was opened.
  #opener: HTMLElement | null = null;

  // `memory` is the panel of what is remembered.
  constructor(memory: MemoryPanel) {
    this.memory = memory;
    byId("panel-close").addEventListener("click", () => this.toggle(false));
    byId("tabs").addEventListener("keydown", (event) => this.#arrows(event));
    this.words();
  }

  words(): void {
    byId("tabs").replaceChildren(...TABS.map((tab) => el("button", {
      type: "button", role: "tab", id: `tab-${tab}`, "aria-selected": String(tab === this.tab),
      tabindex: tab === this.tab ? "0" : "-1", onclick: () => this.select(tab),
    }, word(tab), el("span", { class: "n" }, this.#number(tab)))));
    byId("panel-body").setAttribute("aria-labelledby", `tab-${this.tab}`);
  }

  #number(tab: Tab): string {
    if (tab === "memory") return this.memory.facts.length ? String(this.memory.facts.length) : "";
    const run = this.turn?.run;
    if (!run) return "";
    const number = {
      sources: run.material.size, data: run.of("sheet").length, code: run.of("code").length, trace: run.calls.length,
    }[tab];
    return number ? String(number) : "";
  }

  #arrows(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    this.select(TABS[(TABS.indexOf(this.tab) + step + TABS.length) % TABS.length]!);
    byId(`tab-${this.tab}`).focus();
  }

  toggle(open: boolean): void {
    if (open && document.activeElement instanceof HTMLElement) this.#opener = document.activeElement;
    document.body.classList.toggle("panel-open", open);
    byId("panel-toggle").setAttribute("aria-expanded", String(document.body.classList.contains("panel-open")));
  }

  // Closes the panel where it lies over the text, and gives the focus back; returns whether it did.
  leave(): boolean {
    const isOver = getComputedStyle(byId("panel")).position === "fixed";
    if (!isOver || !document.body.classList.contains("panel-open")) return false;
    this.toggle(false);
    this.#opener?.focus();
    return true;
  }

  select(tab: Tab): void {
    this.tab = tab;
    this.#key = "";
    this.draw();
  }

  show(turn: Turn | null): void {
    this.turn = turn;
    this.draw();
  }

  // Opens the panel at one item.
  open(turn: Turn, item: Item): void {
    this.turn = turn;
    this.tab = "sources";
    this.#key = "";
    this.toggle(true);
    this.draw();
    const found = byId("panel-body").querySelector(`[data-number="${Number(item.number)}"]`);
    found?.scrollIntoView({ block: "start" });
    found?.classList.add("flash");
  }

  // Opens the panel at one thing that is remembered.
  async openMemory(id: string): Promise<void> {
    this.tab = "memory";
    this.#key = "";
    this.toggle(true);
    await this.memory.load();
    this.draw();
    const found = markFact(id);
    found?.scrollIntoView({ block: "start" });
    found?.classList.add("flash");
  }

  // Draws anew even when nothing but the language has changed.
  redraw(): void {
    this.#key = "";
    this.draw();
  }

  // Draws when something that the open tab shows has changed; a table in it stays where the reader left it.
  draw(): void {
    const run = this.turn?.run;
    const key = [this.tab, run?.id, run?.material.size, run?.over, this.tab === "trace" && run?.last].join();
    this.words();
    if (key === this.#key) return;
    this.#key = key;
    if (this.tab === "memory") {
      // Its own entries: what somebody is writing there stays while a run goes on.
      if (this.memory.root.parentElement !== byId("panel-body")) byId("panel-body").replaceChildren(this.memory.root);
      return;
    }
    const parts = run ? VIEWS[this.tab](run) : [];
    byId("panel-body").replaceChildren(...(parts.length ? parts : [el("p", { class: "dim" }, word("nothing"))]));
  }
}

const VIEWS: Record<Exclude<Tab, "memory">, (run: Run) => HTMLElement[]> = { sources, data, code, trace };

function sources(run: Run): HTMLElement[] {
  const cited = (item: Item): boolean => run.cited.has(item.number);
  const ordered = run.items.sort((a, b) => Number(cited(b)) - Number(cited(a)) || a.number - b.number);
  return ordered.map((item) => {
    const kind = kindOf(item);
    return el("section", { class: `source ${kind}`, data: { number: item.number } },
      el("div", { class: "kind" }, `[${item.number}] ${word(kind)}`, el("span", { class: "spacer" }),
        run.over && kind !== "missing" && el("span", { class: "dim" }, word(cited(item) ? "cited" : "uncited"))),
      el("strong", {}, titleOf(item)), el("div", { class: "dim" }, originOf(item)), detail(item));
  });
}

function detail(item: Item): HTMLElement | null {
  if (item.passage) return quote(item.passage.text);
  if (item.code) return el("div", { class: "short" }, cell(item as CodeItem));
  if (!item.sheet) return null;
  const columns = item.sheet.columns.map((column) => el("tr", {},
    el("td", { class: "mono" }, column.name),
    [column.unit, column.source, column.as_of].map((text) => el("td", {}, text || "–"))));
  return el("div", { class: "scroll" }, el("table", { class: "columns" }, el("tbody", {}, columns)));
}

function quote(text: string): HTMLElement {
  if (text.length <= SNIPPET) return el("blockquote", {}, text);
  const place = el("blockquote", {}, `${text.slice(0, SNIPPET)}… `);
  place.append(el("button", { type: "button", class: "quiet", onclick: () => place.replaceChildren(text) }, word("more")));
  return place;
}

function data(run: Run): HTMLElement[] {
  return run.of("sheet").map((item) => {
  const { number, sheet, variable } = item;
  const size = `${count(sheet.rows)} ${word("rows")} × ${sheet.columns.length} ${word("columns")}`;
  return el("section", { data: { number } },
    el("div", { class: "dim" }, `[${number}] ${size} · ${word("used")} ${variable}`),
    new LiveTable(item).root);
  });
}

function code(run: Run): HTMLElement[] {
  return run.of("code").map((item) => {
  const state = item.code.ok ? "ok" : "failed";
  return el("section", { class: "source code", data: { number: item.number } },
    el("div", { class: "kind" }, `[${item.number}] ${item.purpose}`, el("span", { class: "spacer" }),
      el("span", { class: state }, word(state)), duration(Number(item.code.duration_ms))),
    cell(item));
  });
}

function cell(item: CodeItem): HTMLElement {
  const { code: source, stdout, result, traceback } = item.code;
  const parts: [string, string][] = [["", source], [word("output"), stdout], [word("result"), result], [word("traceback"), traceback]];
  return el("div", { class: "cell" }, parts.filter(([, text]) => text).map(([title, text]) =>
    el("div", { class: "io" }, title ? el("span", { class: "dim" }, title) : null, el("pre", {}, text))));
}

// Tokens read and written, with what of them was cheaper or is not seen, and the cost where prices are known.
export function usageOf({ prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cost, estimated }: Usage): string {
  const part = (tokens: string, name: string): string => (Number(tokens) ? ` (${count(tokens)} ${word(name)})` : "");
  const read = `${count(prompt_tokens)}${part(cached_tokens, "cachedTokens")}`;
  const written = `${count(completion_tokens)}${part(reasoning_tokens, "reasoningTokens")}`;
  const price = Number(cost) ? ` · ${word("cost")} ${Number(cost).toPrecision(3)}` : "";
  return `${read} + ${written} ${word("tokens")}${estimated ? `, ${word("estimated")}` : ""}${price}`;
}

function trace(run: Run): HTMLElement[] {
  const used = run.usage ? usageOf(run.usage) : "";
  const record = el("a", { href: path("runs", run.id), target: "_blank" }, word("record"));
  const facts = [run.id, run.model, used].filter(Boolean).join(" · ");
  return [...run.rows.map((row) => rowOf(row)), el("p", { class: "dim" }, facts, " ", record)];
}
