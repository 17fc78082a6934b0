// What is remembered of the reader: a line at each answer that was given some of it, and a panel to correct it.
import { call, path, post, put } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { day, setDecimals } from "../base/format";
import { word } from "../base/words";

const KIND = "FACT_KIND_";
// Values of the preferences that have a few; the others are written.
export const CHOICES = {
  units: ["thousand", "million", "billion", "wan", "yi"], language: ["en", "zh"], depth: ["quick", "standard", "deep"],
  colours: ["green_up", "red_up"], decimals: ["point", "comma"], memory: ["on", "off"],
};
export const KINDS = ["statement", "currency", "units", "language", "depth", "colours", "decimals", "watch_list", "memory"];

export const kindOf = (fact) => fact.kind.replace(KIND, "").toLowerCase().replace("unspecified", "statement");

// What a fact says in a few words: a preference by its value.
export const saidOf = (fact) => (fact.value ? `${word(`fact_${kindOf(fact)}`)} ${fact.value.replaceAll(",", ", ")}` : fact.text);

// The line at an answer: what of memory its run was given. `onOpen()` shows the panel.
export class UsedView {
  constructor(run, onOpen) {
    this.run = run;
    this.onOpen = onOpen;
    this.root = el("p", { class: "gaps used", hidden: true });
  }

  update() {
    const { facts = [], stances = [] } = this.run.remembered ?? {};
    this.root.hidden = !facts.length && !stances.length;
    if (this.root.hidden) return;
    const applied = new Set(this.run.remembered.applied ?? []);
    const chips = [
      ...facts.map((fact) => this.#chip(saidOf(fact), fact.text, applied.has(fact.id), fact.id)),
      ...stances.map((stance) => this.#chip(stance.view, day(stance.create_time), false, stance.id)),
    ];
    this.root.replaceChildren(el("span", { class: "dim" }, `${word("usedFromMemory")}${word("colon")}`), ...chips);
  }

  #chip(text, title, isApplied, id) {
    return el("button", {
      type: "button", class: `chip slot ${isApplied ? "filled" : ""}`, title: `${title} · ${word("correctMemory")}`,
      data: { remembered: id }, onclick: () => this.onOpen(id),
    }, text);
  }
}

// The tab of the panel: all facts, each to edit or delete, and a form for a new one.
export class MemoryPanel {
  // `onChange()` after the list has changed.
  constructor(onChange) {
    this.facts = [];
    this.onChange = onChange;
    this.root = el("div", { class: "memory" });
  }

  get = (kind) => this.facts.find((fact) => kindOf(fact) === kind)?.value ?? "";

  // Whether the reader is writing: an entry has become fields, or there are words for a new one.
  get isWriting() {
    return Boolean(this.root.querySelector("li form") || this.root.querySelector(":scope > form [name=text]")?.value);
  }

  // Reads the facts; when they cannot be read, those shown stay. What somebody is writing stays unless `isDone`.
  async load(isDone = false) {
    try {
      this.facts = (await call("/v1/facts?page_size=200")).facts;
      this.apply();
      if (isDone || !this.isWriting) this.draw();
      this.onChange();
    } catch (problem) {
      this.#complain(problem.message);
    }
  }

  // Preferences that the page follows itself.
  apply() {
    setDecimals(this.get("decimals"));
    document.documentElement.dataset.rise = this.get("colours");
  }

  draw() {
    const list = this.facts.map((fact) => this.#entry(fact));
    this.problem = el("p", { class: "chip bad", role: "alert", hidden: true });
    this.root.replaceChildren(
      el("p", { class: "dim" }, word("memoryNote")), this.problem,
      list.length ? el("ul", { class: "facts" }, list) : el("p", { class: "dim" }, word("noFacts")),
      this.#form({ kind: `${KIND}STATEMENT`, value: "", text: "" }, (body) => post("/v1/facts", body), word("addFact")));
  }

  #entry(fact) {
    const edit = el("button", { type: "button", class: "quiet", "aria-label": `${word("editFact")}: ${fact.text}` }, "✎");
    const drop = el("button", {
      type: "button", class: "quiet", "aria-label": `${word("remove")}: ${fact.text}`, onclick: () => this.#drop(fact),
    }, "✕");
    const learnt = fact.origin === "FACT_ORIGIN_LEARNT";
    const origin = [word(learnt ? "learntFact" : "statedFact"), day(fact.update_time),
      learnt && `${Math.round(fact.confidence * 100)} %`].filter(Boolean).join(" · ");
    const entry = el("li", { class: "source", data: { fact: fact.id } },
      el("div", { class: "kind" }, word(`fact_${kindOf(fact)}`), el("span", { class: "spacer" }), edit, drop),
      fact.value && el("strong", {}, fact.value.replaceAll(",", ", ")), el("div", {}, fact.text),
      el("div", { class: "dim" }, origin));
    edit.addEventListener("click", () => {
      const save = (body) => put(path("facts", fact.id), { ...body, version: fact.version });
      const form = this.#form(fact, save, word("saveFact"));
      entry.replaceChildren(form);
      form.querySelector("[name=text]").focus();
    });
    return entry;
  }

  // Fields of one fact; the kind of one that is there stays.
  #form(fact, save, label) {
    const kind = el("select", { name: "kind", "aria-label": word("factKind"), disabled: Boolean(fact.id) },
      KINDS.map((name) => el("option", { value: name, selected: name === kindOf(fact) }, word(`fact_${name}`))));
    const place = el("span", {});
    const text = el("input", { name: "text", value: fact.text, required: true, maxlength: 500, "aria-label": word("factText"),
      placeholder: word("factText") });
    const value = () => place.querySelector("[name=value]")?.value.trim() ?? "";
    const choose = () => place.replaceChildren(...valueField(kind.value, fact.value));
    kind.addEventListener("change", choose);
    choose();
    const form = el("form", { class: "fact-form" }, kind, place, text, el("button", { type: "submit" }, label));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await this.#try(() => save({ kind: kind.value, value: value(), text: text.value.trim() }));
    });
    return form;
  }

  async #drop(fact) {
    await this.#try(() => call(path("facts", fact.id), { method: "DELETE" }));
  }

  // Another tab's edit is shown with what it says now, and the reader's own is to be made again.
  async #try(act) {
    try {
      await act();
      await this.load(true);
      announce(word("memoryChanged"));
    } catch (problem) {
      if (problem.status === 409 || problem.status === 404) await this.load(true);
      this.#complain(problem.status === 409 ? word("factChanged") : problem.message);
    }
  }

  #complain(text) {
    if (!this.problem) this.draw();
    this.problem.textContent = text;
    this.problem.hidden = false;
  }
}

function valueField(kind, value) {
  if (kind === "statement") return [];
  const attributes = { name: "value", "aria-label": word("factValue"), required: true };
  const choices = CHOICES[kind];
  if (!choices) return [el("input", { ...attributes, value, placeholder: kind === "currency" ? "EUR" : "AAPL, NVDA" })];
  return [el("select", attributes, choices.map((name) =>
    el("option", { value: name, selected: name === value }, word(`value_${name}`))))];
}

export const markFact = (id) => byId("panel-body").querySelector(`[data-fact="${CSS.escape(id)}"]`);
