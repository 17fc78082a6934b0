// The live table behind a reference: the server filters and sorts the whole sheet, and the rows in sight are drawn.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";

import { asProblem, path } from "../base/api";
import { announce, el } from "../base/dom";
import { columnFormat, computation, count, provenance } from "../base/format";
import { word } from "../base/words";
import type { Material } from "../contract/types";
import { Rows } from "./rows";
import { asTsv } from "./tsv";

type SheetOf = Material & Required<Pick<Material, "sheet">>;

const ROW_PX = 27;
const OVERSCAN = 8;
// A key that is typed is followed by another one within this time.
const TYPING_MS = 200;
// What a clipboard and a spreadsheet take at once; the files have all rows.
const MOST_COPIED = 20_000;

export class LiveTable {
  readonly #item: SheetOf;
  readonly #rows: Rows;
  readonly #units: Map<string, string>;
  readonly #range = el("span", { class: "dim" });
  readonly #nothing = el("p", { class: "dim none", hidden: true }, word("noRows"));
  readonly #head = el("thead");
  readonly #body = el("tbody");
  readonly #table = el("table", {}, this.#head, this.#body);
  readonly #sizer = el("div", { class: "sizer" }, this.#table, this.#nothing);
  readonly #scroll: HTMLElement;
  readonly #virtual: Virtualizer<HTMLElement, HTMLElement>;
  #typing: ReturnType<typeof setTimeout> | undefined;
  readonly root: HTMLElement;

  constructor(item: SheetOf) {
    this.#item = item;
    this.#units = new Map(item.sheet.columns.map((column) => [column.name, column.unit]));
    this.#rows = new Rows(item.sheet.id, () => this.#loaded(), (thrown) => this.#fail(asProblem(thrown).message));
    this.#scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": item.sheet.title }, this.#sizer);
    this.root = el("figure", { class: "table", data: { table: item.variable } }, this.#title(), this.#scroll, this.#foot());
    this.#virtual = new Virtualizer<HTMLElement, HTMLElement>({ ...this.#options(), scrollToFn: elementScroll });
    this.#start();
  }

  #options() {
    return {
      count: this.#rows.total, getScrollElement: () => this.#scroll, estimateSize: () => ROW_PX, overscan: OVERSCAN,
      observeElementRect, observeElementOffset, scrollToFn: elementScroll, onChange: () => this.#draw(),
    };
  }

  // The virtualizer watches the place once that is on the page, and lets go of it when the table has left.
  #start(): void {
    const leave = this.#virtual._didMount();
    const seen = new IntersectionObserver(() => {
      if (this.root.isConnected) return void this.#virtual._willUpdate();
      seen.disconnect();
      leave();
    });
    seen.observe(this.root);
    void this.#change({ sort: "", desc: false, filter: "" });
  }

  async #change(view: Rows["view"]): Promise<void> {
    this.root.setAttribute("aria-busy", "true");
    await this.#rows.change(view);
    this.root.removeAttribute("aria-busy");
    this.#scroll.scrollTop = 0;
  }

  #title(): HTMLElement {
    const { sheet, variable } = this.#item;
    const file = (kind: string): HTMLElement => {
      const query = new URLSearchParams({ format: kind, name: sheet.title });
      return el("a", { href: `${path("tables", sheet.id, "export")}?${query}`, download: true }, kind.toUpperCase());
    };
    const copy = el("button", { type: "button", class: "quiet", title: word("copyRows"), onclick: () => void this.#copy(copy) },
      word("copy"));
    return el("figcaption", {},
      el("span", { class: "tag" }, variable), el("strong", {}, sheet.title), el("span", { class: "spacer" }),
      this.#search(), copy, file("csv"), file("xlsx"));
  }

  #search(): HTMLElement {
    const filter = (): void => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => {
        void this.#change({ ...this.#rows.view, filter: box.value }).then(() => announce(this.#size()));
      }, TYPING_MS);
    };
    const named = { "aria-label": word("filterRows"), placeholder: word("filterRows") };
    const box = el("input", { type: "search", class: "narrow", maxlength: "200", ...named, oninput: filter });
    return box;
  }

  #origin(): string[] {
    const { sources, asOf } = provenance(this.#item.sheet);
    const parts = [computation(this.#item), sources && `${word("source")}: ${sources}`, asOf && `${word("asOf")} ${asOf}`];
    return parts.filter(Boolean);
  }

  #foot(): HTMLElement {
    return el("div", { class: "foot" },
      el("span", { class: "dim origin" }, this.#origin().join(" · ")), el("span", { class: "spacer" }), this.#range);
  }

  #size = (): string => `${count(this.#rows.total)} ${word("rows")}`;

  #fail(text: string): void {
    this.#nothing.replaceChildren(el("span", { class: "chip bad" }, `${this.#item.variable}: ${text}`));
    this.#nothing.hidden = false;
  }

  #loaded(): void {
    this.#nothing.replaceChildren(word("noRows"));
    this.#nothing.hidden = this.#rows.total > 0;
    this.#drawHead();
    this.#virtual.setOptions(this.#options());
    this.#virtual._willUpdate();
    this.#draw();
  }

  // The head is made once, so that the focus stays on the button that sorts.
  #drawHead(): void {
    const { columns, view } = this.#rows;
    if (!this.#head.firstChild) {
      this.#head.append(el("tr", {}, columns.map((column) => this.#heading(column.name, isNumeric(column.type)))));
    }
    [...this.#head.querySelectorAll("th")].forEach((head, i) => {
      const isSorted = view.sort === columns[i]?.name;
      head.setAttribute("aria-sort", !isSorted ? "none" : view.desc ? "descending" : "ascending");
      head.querySelector("i")!.textContent = !isSorted ? "" : view.desc ? "▾" : "▴";
    });
  }

  #heading(name: string, numeric: boolean): HTMLElement {
    const order = (): void => {
      const { view } = this.#rows;
      const isSorted = view.sort === name;
      void this.#change({ ...view, sort: isSorted && view.desc ? "" : name, desc: isSorted && !view.desc });
    };
    return el("th", { scope: "col", class: numeric ? "number" : "", "aria-sort": "none" },
      el("button", { type: "button", title: `${word("sort")} ${name}`, onclick: order }, name, el("i", {})),
      el("small", {}, this.#units.get(name) || "\u00a0"));
  }

  #draw(): void {
    const { columns, total } = this.#rows;
    const items = this.#virtual.getVirtualItems();
    const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? -1];
    if (last >= first) this.#rows.need(first, last);
    this.#sizer.style.height = total ? `${this.#head.offsetHeight + total * ROW_PX}px` : "";
    // A margin and no transform: the head sticks to the top of what scrolls.
    this.#table.style.marginTop = `${first * ROW_PX}px`;
    this.#table.setAttribute("aria-rowcount", String(total + 1));
    const formats = columns.map(({ name }, i) => columnFormat(name, this.#rows.column(i)));
    this.#body.replaceChildren(...items.map(({ index }) => {
      const row = this.#rows.at(index);
      return el("tr", { "aria-rowindex": index + 2 }, columns.map(({ type }, i) => {
        const value = row?.[i];
        const numeric = isNumeric(type);
        const title = numeric && typeof value === "number" ? String(value) : null;
        return el("td", { class: numeric ? "number" : "", title }, row ? formats[i]!(value) : "…");
      }));
    }));
    this.#say();
  }

  #say(): void {
    const { total } = this.#rows;
    const { scrollTop, clientHeight } = this.#scroll;
    const first = Math.min(Math.floor(scrollTop / ROW_PX) + 1, total);
    const last = Math.min(Math.ceil((scrollTop + clientHeight - this.#head.offsetHeight) / ROW_PX), total);
    const range = total ? `${count(first)}–${count(Math.max(first, last))}` : "0";
    this.#range.textContent = `${range} ${word("of")} ${count(total)}`;
  }

  // All rows of the view, with full precision, units and source, for a spreadsheet.
  async #copy(button: HTMLButtonElement): Promise<void> {
    button.disabled = true;
    try {
      const names = this.#rows.columns.map(({ name }) => (this.#units.get(name) ? `${name} (${this.#units.get(name)})` : name));
      const rows = await this.#rows.all(MOST_COPIED);
      await navigator.clipboard.writeText(asTsv(names, rows, [this.#item.sheet.title, ...this.#origin()]));
      button.textContent = word("copied");
      announce(`${count(rows.length)} ${word("rows")}: ${word("copied")}`);
    } catch (thrown) {
      this.#fail(thrown instanceof DOMException ? word("noClipboard") : asProblem(thrown).message);
    } finally {
      button.disabled = false;
    }
  }
}

const isNumeric = (type: string): boolean => /int|float|double|decimal/.test(type);
