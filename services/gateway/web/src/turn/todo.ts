// The run's todo list: shown as the model and the user change it, editable while the run runs.
import { asProblem, path, put } from "../base/api";
import { el } from "../base/dom";
import { word } from "../base/words";
import type { TodoItem } from "../contract/types";
import type { Run } from "../run/run";

const MAX_ITEMS = 20;
const MAX_CHARS = 200;

export class TodoView {
  readonly root: HTMLElement;
  readonly form: HTMLElement;
  readonly note = el("p", { class: "dim", role: "status", hidden: true });
  readonly list = el("ul", { class: "entries" });
  readonly box = el("input", {
    type: "text", maxlength: MAX_CHARS, "aria-label": word("todoAdd"), placeholder: word("todoAdd"),
  });
  readonly run: Run;
  key = "";

  constructor(run: Run) {
    this.run = run;
    this.form = el("form", { onsubmit: (event: Event) => { event.preventDefault(); this.#add(); } }, this.box,
      el("button", { type: "submit", class: "quiet" }, "+"));
    this.root = el("section", { class: "todo", hidden: true, "aria-label": word("todo") },
      el("span", { class: "dim" }, word("todo")), this.list, this.form, this.note);
  }

  update(): void {
    const { run } = this;
    this.root.hidden = !run.todo.length && (run.over || !run.last);
    this.form.hidden = run.over;
    const key = JSON.stringify([run.todo, run.over]);
    if (key === this.key) return;
    this.key = key;
    this.list.replaceChildren(...run.todo.map((item, place) => this.#entry(item, place)));
  }

  #entry(item: TodoItem, place: number): HTMLElement {
    const done = item.state === "done";
    const box = el("input", {
      type: "checkbox", checked: done, disabled: this.run.over, "aria-label": item.text,
      onchange: () => this.#change(place, { ...item, state: done ? "open" : "done" }),
    });
    const text = el("span", { class: "text" }, item.text);
    const drop = el("button", {
      type: "button", class: "quiet", "aria-label": `${word("todoDrop")}: ${item.text}`, onclick: () => this.#change(place, null),
    }, "×");
    return el("li", { class: item.state }, el("label", {}, box, text), this.run.over ? null : drop);
  }

  #change(place: number, item: TodoItem | null): void {
    void this.#send(this.run.todo.flatMap((known, i) => (i === place ? (item ? [item] : []) : [known])));
  }

  #add(): void {
    const text = this.box.value.trim();
    if (!text || this.run.todo.length >= MAX_ITEMS) return;
    this.box.value = "";
    void this.#send([...this.run.todo, { text, state: "open" }]);
  }

  // What the run has kept comes back as an event; until then the list is as it was.
  async #send(items: TodoItem[]): Promise<void> {
    try {
      await put(path("runs", this.run.id, "todo"), { items });
      this.note.hidden = true;
    } catch (thrown) {
      this.note.textContent = asProblem(thrown).message;
      this.note.hidden = false;
      this.key = "";
      this.update();
    }
  }
}
