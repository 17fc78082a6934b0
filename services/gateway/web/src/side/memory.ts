// What is remembered of the reader: a line at each answer that was given some of it, and a panel to correct it.
import { asProblem, call, path, post, put } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { day, setDecimals } from "../base/format";
import { word } from "../base/words";
import type { Fact, Facts } from "../contract/types";
import type { Run } from "../run/run";

const KIND = "FACT_KIND_";

interface FactBody {
  kind: string;
  value: string;
  text: string;
}
// A fact that is edited, or what a new one begins with.
type Draft = Pick<Fact, "kind" | "value" | "text"> & { id?: string };
// Values of the preferences that have a few; the others are written.
export const CHOICES: Record<string, string[]> = {
  units: ["thousand", "million", "billion", "wan", "yi"], language: ["en", "zh"], depth: ["quick", "standard", "deep"],
  colours: ["green_up", "red_up"], decimals: ["point", "comma"], memory: ["on", "off"],
};
export const KINDS = ["statement", "currency", "units", "language", "depth", "colours", "decimals", "watch_list", "memory"];

export const kindOf = (fact: Pick<Fact, "kind">): string => fact.kind.replace(KIND, "").toLowerCase().replace("unspecified", "statement");

// What a fact says in a few words: a preference by its value.
export const saidOf = (fact: Fact): string => (fact.value ? `${word(`fact_${kindOf(fact)}`)} ${fact.value.replaceAll(",", ", ")}` : fact.text);

// The line at an answer: what of memory its run was given. `onOpen()` shows the panel.
export class UsedView {
  readonly root = el("p", { class: "gaps used", hidden: true });
  readonly #run: Run;
  readonly #onOpen: (id: string) => void;

  constructor(run: Run, onOpen: (id: string) => void) {
    this.#run = run;
    this.#onOpen = onOpen;
  }

  update(): void {
    const { facts = [], stances = [], applied: used = [] } = this.#run.remembered ?? {};
    this.root.hidden = !facts.length && !stances.length;
    if (this.root.hidden) return;
    const applied = new Set(used);
    const chips = [
      ...facts.map((fact) => this.#chip(saidOf(fact), fact.text, applied.has(fact.id), fact.id)),
      ...stances.map((stance) => this.#chip(stance.view, day(stance.create_time), false, stance.id)),
    ];
    this.root.replaceChildren(el("span", { class: "dim" }, `${word("usedFromMemory")}${word("colon")}`), ...chips);
  }

  #chip(text: string, title: string, isApplied: boolean, id: string): HTMLElement {
    return el("button", {
      type: "button", class: `chip slot ${isApplied ? "filled" : ""}`, title: `${title} · ${word("correctMemory")}`,
      data: { remembered: id }, onclick: () => this.#onOpen(id),
    }, text);
  }
}

// The tab of the panel: all facts, each to edit or delete, and a form for a new one.
export class MemoryPanel {
  readonly root = el("div", { class: "memory" });
  readonly problem = el("p", { class: "chip bad", role: "alert", hidden: true });
  readonly #onChange: () => void;
  facts: Fact[] = [];

  // `onChange()` after the list has changed.
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  get = (kind: string): string => this.facts.find((fact) => kindOf(fact) === kind)?.value ?? "";

  // Whether the reader is writing: an entry has become fields, or there are words for a new one.
  get isWriting(): boolean {
    return Boolean(this.root.querySelector("li form") || this.root.querySelector<HTMLInputElement>(":scope > form [name=text]")?.value);
  }

  // Reads the facts; when they cannot be read, those shown stay. What somebody is writing stays unless `isDone`.
  async load(isDone = false): Promise<void> {
    try {
      this.facts = (await call<Facts>(`${path("facts")}?page_size=200`)).facts;
      this.apply();
      if (isDone || !this.isWriting) this.draw();
      this.#onChange();
    } catch (thrown) {
      this.#complain(asProblem(thrown).message);
    }
  }

  // Preferences that the page follows itself.
  apply(): void {
    setDecimals(this.get("decimals"));
    document.documentElement.dataset.rise = this.get("colours");
  }

  draw(): void {
    const list = this.facts.map((fact) => this.#entry(fact));
    this.problem.hidden = true;
    this.root.replaceChildren(
      el("p", { class: "dim" }, word("memoryNote")), this.problem,
      list.length ? el("ul", { class: "facts" }, list) : el("p", { class: "dim" }, word("noFacts")),
      this.#form({ kind: `${KIND}STATEMENT`, value: "", text: "" }, (body) => post(path("facts"), body), word("addFact")));
  }

  #entry(fact: Fact): HTMLElement {
    const edit = el("button", { type: "button", class: "quiet", "aria-label": `${word("editFact")}: ${fact.text}` }, "✎");
    const drop = el("button", {
      type: "button", class: "quiet", "aria-label": `${word("remove")}: ${fact.text}`, onclick: () => void this.#drop(fact),
    }, "✕");
    const learnt = fact.origin === "FACT_ORIGIN_LEARNT";
    const origin = [word(learnt ? "learntFact" : "statedFact"), day(fact.update_time),
      learnt && `${Math.round(fact.confidence * 100)} %`].filter(Boolean).join(" · ");
    const entry = el("li", { class: "source", data: { fact: fact.id } },
      el("div", { class: "kind" }, word(`fact_${kindOf(fact)}`), el("span", { class: "spacer" }), edit, drop),
      fact.value && el("strong", {}, fact.value.replaceAll(",", ", ")), el("div", {}, fact.text),
      el("div", { class: "dim" }, origin));
    edit.addEventListener("click", () => {
      const save = (body: FactBody): Promise<unknown> => put(path("facts", fact.id), { ...body, version: fact.version });
      const form = this.#form(fact, save, word("saveFact"));
      entry.replaceChildren(form);
      form.querySelector<HTMLInputElement>("[name=text]")?.focus();
    });
    return entry;
  }

  // Fields of one fact; the kind of one that is there stays.
  #form(fact: Draft, save: (body: FactBody) => Promise<unknown>, label: string): HTMLFormElement {
    const kind = el("select", { name: "kind", "aria-label": word("factKind"), disabled: Boolean(fact.id) },
      KINDS.map((name) => el("option", { value: name, selected: name === kindOf(fact) }, word(`fact_${name}`))));
    const place = el("span", {});
    const text = el("input", { name: "text", value: fact.text, required: true, maxlength: 500, "aria-label": word("factText"),
      placeholder: word("factText") });
    const value = (): string => place.querySelector<HTMLInputElement | HTMLSelectElement>("[name=value]")?.value.trim() ?? "";
    const choose = (): void => place.replaceChildren(...valueField(kind.value, fact.value));
    kind.addEventListener("change", choose);
    choose();
    const form = el("form", { class: "fact-form" }, kind, place, text, el("button", { type: "submit" }, label));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await this.#try(() => save({ kind: kind.value, value: value(), text: text.value.trim() }));
    });
    return form;
  }

  async #drop(fact: Fact): Promise<void> {
    await this.#try(() => call(path("facts", fact.id), { method: "DELETE" }));
  }

  // Another tab's edit is shown with what it says now, and the reader's own is to be made again.
  async #try(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
      await this.load(true);
      announce(word("memoryChanged"));
    } catch (thrown) {
      const problem = asProblem(thrown);
      if (problem.status === 409 || problem.status === 404) await this.load(true);
      this.#complain(problem.status === 409 ? word("factChanged") : problem.message);
    }
  }

  #complain(text: string): void {
    if (!this.problem.isConnected) this.draw();
    this.problem.textContent = text;
    this.problem.hidden = false;
  }
}

function valueField(kind: string, value: string): HTMLElement[] {
  if (kind === "statement") return [];
  const attributes = { name: "value", "aria-label": word("factValue"), required: true };
  const choices = CHOICES[kind];
  if (!choices) return [el("input", { ...attributes, value, placeholder: kind === "currency" ? "EUR" : "AAPL, NVDA" })];
  return [el("select", attributes, choices.map((name) =>
    el("option", { value: name, selected: name === value }, word(`value_${name}`))))];
}

export const markFact = (id: string): HTMLElement | null => byId("panel-body").querySelector(`[data-fact="${CSS.escape(id)}"]`);
