// The live table behind a reference: the server filters and sorts the whole sheet and gives one page of it.
import { call, path } from "../base/api";
import { el } from "../base/dom";
import { columnFormat, computation, count, provenance } from "../base/format";
import { word } from "../base/words";

export class LiveTable {
  constructor(item, pageSize = 12) {
    const { sheet, variable } = item;
    this.item = item;
    this.sheet = sheet;
    this.variable = variable;
    this.pageSize = pageSize;
    this.offset = 0;
    this.sort = "";
    this.desc = false;
    this.filter = "";
    this.facts = new Map(sheet.columns.map((column) => [column.name, column]));
    this.range = el("span", { class: "dim", "aria-live": "polite" });
    this.back = this.#mover(-1, "‹", "previous");
    this.forth = this.#mover(1, "›", "next");
    this.body = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": sheet.title });
    this.root = el("figure", { class: "table", data: { table: variable } }, this.#title(), this.body, this.#foot());
    this.load();
  }

  #mover(by, sign, label) {
    const move = () => {
      this.offset += by * this.pageSize;
      this.load();
    };
    const named = { "aria-label": word(label), title: word(label) };
    return el("button", { type: "button", class: "quiet", ...named, onclick: move }, sign);
  }

  #title() {
    const exported = path("tables", this.sheet.id, "export");
    const file = (kind) => el("a", { href: `${exported}?format=${kind}`, download: true }, kind.toUpperCase());
    return el("figcaption", {},
      el("span", { class: "tag" }, this.variable), el("strong", {}, this.sheet.title), el("span", { class: "spacer" }),
      this.#search(), file("csv"), file("xlsx"));
  }

  #search() {
    const filter = ({ target }) => {
      this.filter = target.value;
      this.offset = 0;
      this.load();
    };
    const named = { "aria-label": word("filterRows"), placeholder: word("filterRows") };
    return el("input", { type: "search", class: "rows", maxlength: "200", ...named, oninput: filter });
  }

  #foot() {
    const { sources, asOf } = provenance(this.sheet);
    const origin = [
      computation(this.item), sources && `${word("source")}: ${sources}`, asOf && `${word("asOf")} ${asOf}`,
    ].filter(Boolean);
    return el("div", { class: "foot" },
      el("span", { class: "dim origin" }, origin.join(" · ")), el("span", { class: "spacer" }),
      this.range, this.back, this.forth);
  }

  async load() {
    const query = new URLSearchParams({ offset: this.offset, limit: this.pageSize, sort: this.sort, desc: this.desc, filter: this.filter });
    const asked = (this.asked = query.toString());
    this.root.setAttribute("aria-busy", "true");
    try {
      const page = await call(`${path("tables", this.sheet.id)}?${query}`);
      if (this.asked === asked) this.#show(page);
    } catch (problem) {
      this.body.replaceChildren(el("span", { class: "chip bad" }, `${this.variable}: ${problem.message}`));
    }
    this.root.removeAttribute("aria-busy");
  }

  #show(page) {
    const last = Math.min(this.offset + this.pageSize, page.total);
    const first = page.total ? this.offset + 1 : 0;
    this.range.textContent = `${count(first)}–${count(last)} ${word("of")} ${count(page.total)}`;
    this.back.disabled = this.offset === 0;
    this.forth.disabled = last >= page.total;
    const formats = page.columns.map(({ name }, i) => columnFormat(name, page.rows.map((row) => row[i])));
    const numeric = page.columns.map(({ type }) => /int|float|double|decimal/.test(type));
    const cell = (value, i) => el("td", {
      class: numeric[i] ? "number" : "", title: numeric[i] && value !== null ? String(value) : null,
    }, formats[i](value));
    this.body.replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, page.columns.map((column, i) => this.#head(column, numeric[i])))),
      el("tbody", {}, page.rows.map((row) => el("tr", {}, row.map(cell))))));
  }

  #head({ name }, numeric) {
    const active = this.sort === name;
    const order = () => {
      if (active && this.desc) this.sort = "";
      else [this.sort, this.desc] = [name, active];
      this.offset = 0;
      this.load();
    };
    const [sorted, arrow] = !active ? ["none", ""] : this.desc ? ["descending", "▾"] : ["ascending", "▴"];
    return el("th", { scope: "col", class: numeric ? "number" : "", "aria-sort": sorted },
      el("button", { type: "button", title: `${word("sort")} ${name}`, onclick: order }, name, el("i", {}, arrow)),
      el("small", {}, this.facts.get(name)?.unit || "\u00a0"));
  }
}
