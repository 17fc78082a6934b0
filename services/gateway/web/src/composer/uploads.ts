// The reader's own tables beside the question: read by the server as soon as they are chosen, sent by their ids.
import { call } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { count } from "../base/format";
import { counted, word } from "../base/words";

export class Uploads {
  // `onProblem(text)` when a file cannot be read; "" takes the last one back.
  constructor(onProblem) {
    this.onProblem = onProblem;
    this.sheets = [];
    byId("attach").addEventListener("click", () => byId("files").click());
    byId("files").addEventListener("change", () => this.#take([...byId("files").files]));
  }

  get ids() { return this.sheets.map((sheet) => sheet.id); }

  clear() {
    this.sheets = [];
    this.draw();
  }

  async #take(files) {
    this.onProblem("");
    byId("files").value = "";
    byId("attach").disabled = true;
    for (const file of files) {
      try {
        const query = new URLSearchParams({ name: file.name });
        const { sheet, issues } = await call(`/v1/tables?${query}`, { method: "POST", body: file });
        if (!this.ids.includes(sheet.id)) this.sheets.push({ ...sheet, issues: issues.length });
        announce(`${sheet.title}: ${word("attached")}`);
      } catch (problem) {
        this.onProblem(`${file.name}: ${problem.message}`);
      }
      this.draw();
    }
    byId("attach").disabled = false;
  }

  draw() {
    byId("uploads").hidden = !this.sheets.length;
    byId("uploads").replaceChildren(...this.sheets.map((sheet) => {
      const faults = sheet.issues ? ` · ${word("unreadRows")}${word("colon")} ${sheet.issues}` : "";
      const size = `${count(sheet.rows)} ${word("rows")} · ${counted(sheet.columns.length, "columns", "columns")}`;
      const drop = () => {
        this.sheets = this.sheets.filter((other) => other !== sheet);
        this.draw();
        byId("attach").focus();
      };
      return el("li", { class: "chip" }, `${sheet.title} · ${size}${faults} `,
        el("button", { type: "button", class: "quiet", "aria-label": `${word("remove")}: ${sheet.title}`, onclick: drop }, "✕"));
    }));
  }
}
