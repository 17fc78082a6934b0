// The live table behind a reference: the server filters and sorts the whole sheet and gives one page of it.
import { asProblem, call, path } from "../base/api";
import { el } from "../base/dom";
import type { Material, TablePage } from "../contract/types";
import { columnFormat, computation, count, provenance } from "../base/format";
import { word } from "../base/words";

type SheetOf = Material & Required<Pick<Material, "sheet">>;

export class LiveTable {
  readonly item: SheetOf;
  readonly pageSize: number;
  readonly root: HTMLElement;
  offset = 0;
  sort = "";
  desc = false;
  filter = "";
  asked = "";
  readonly units: Map<string, string>;
  readonly range = el("span", { class: "dim", "aria-live": "polite" });
  readonly back = this.#mover(-1, "‹", "previous");
  readonly forth = this.#mover(1, "›", "next");
  readonly body: HTMLElement;

  constructor(item: SheetOf, pageSize = 12) {
    const { sheet, variable } = item;
    this.item = item;
    this.pageSize = pageSize;
    this.units = new Map(sheet.columns.map((column) => [column.name, column.unit]));
    this.body = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": sheet.title });
    this.root = el("figure", { class: "table", data: { table: variable } }, this.#title(), this.body, this.#foot());
    void this.load();
  }

  #mover(by: number, sign: string, label: string): HTMLButtonElement {
    const move = (): void => {
      this.offset += by * this.pageSize;
      void this.load();
    };
    const named = { "aria-label": word(label), title: word(label) };
    return el("button", { type: "button", class: "quiet", ...named, onclick: move }, sign);
  }

  #title(): HTMLElement {
    const exported = path("tables", this.item.sheet.id, "export");
    const file = (kind: string): HTMLElement => el("a", { href: `${exported}?format=${kind}`, download: true }, kind.toUpperCase());
    return el("figcaption", {},
      el("span", { class: "tag" }, this.item.variable), el("strong", {}, this.item.sheet.title), el("span", { class: "spacer" }),
      this.#search(), file("csv"), file("xlsx"));
  }

  #search(): HTMLElement {
    const filter = (): void => {
      this.filter = box.value;
      this.offset = 0;
      void this.load();
    };
    const named = { "aria-label": word("filterRows"), placeholder: word("filterRows") };
    const box = el("input", { type: "search", class: "rows", maxlength: "200", ...named, oninput: filter });
    return box;
  }

  #foot(): HTMLElement {
    const { sources, asOf } = provenance(this.item.sheet);
    const origin = [
      computation(this.item), sources && `${word("source")}: ${sources}`, asOf && `${word("asOf")} ${asOf}`,
    ].filter(Boolean);
    return el("div", { class: "foot" },
      el("span", { class: "dim origin" }, origin.join(" · ")), el("span", { class: "spacer" }),
      this.range, this.back, this.forth);
  }

  async load(): Promise<void> {
    const place = { offset: String(this.offset), limit: String(this.pageSize) };
    const query = new URLSearchParams({ ...place, sort: this.sort, desc: String(this.desc), filter: this.filter });
    const asked = (this.asked = query.toString());
    this.root.setAttribute("aria-busy", "true");
    try {
      const page = await call<TablePage>(`${path("tables", this.item.sheet.id)}?${query}`);
      if (this.asked === asked) this.#show(page);
    } catch (thrown) {
      const problem = asProblem(thrown);
      this.body.replaceChildren(el("span", { class: "chip bad" }, `${this.item.variable}: ${problem.message}`));
    }
    this.root.removeAttribute("aria-busy");
  }

  #show(page: TablePage): void {
    const last = Math.min(this.offset + this.pageSize, page.total);
    const first = page.total ? this.offset + 1 : 0;
    this.range.textContent = `${count(first)}–${count(last)} ${word("of")} ${count(page.total)}`;
    this.back.disabled = this.offset === 0;
    this.forth.disabled = last >= page.total;
    const formats = page.columns.map(({ name }, i) => columnFormat(name, page.rows.map((row) => row[i])));
    const numeric = page.columns.map(({ type }) => /int|float|double|decimal/.test(type));
    const cell = (value: unknown, i: number): HTMLElement => el("td", {
      class: numeric[i] ? "number" : "", title: numeric[i] && value !== null ? String(value) : null,
    }, formats[i]!(value));
    this.body.replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, page.columns.map((column, i) => this.#head(column.name, numeric[i]!)))),
      el("tbody", {}, page.rows.map((row) => el("tr", {}, row.map(cell))))));
  }

  #head(name: string, numeric: boolean): HTMLElement {
    const active = this.sort === name;
    const order = (): void => {
      if (active && this.desc) this.sort = "";
      else [this.sort, this.desc] = [name, active];
      this.offset = 0;
      void this.load();
    };
    const [sorted, arrow] = !active ? ["none", ""] : this.desc ? ["descending", "▾"] : ["ascending", "▴"];
    return el("th", { scope: "col", class: numeric ? "number" : "", "aria-sort": sorted },
      el("button", { type: "button", title: `${word("sort")} ${name}`, onclick: order }, name, el("i", {}, arrow)),
      el("small", {}, this.units.get(name) || "\u00a0"));
  }
}
