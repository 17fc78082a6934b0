// The reader's own tables beside the question: read by the server as soon as they are chosen, sent by their ids.
import { asProblem, call, path } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { count } from "../base/format";
import { counted, word } from "../base/words";
import type { ImportedTable, Sheet } from "../contract/types";

type Upload = Sheet & { issues: number };

export class Uploads {
  // `onProblem(text)` when a file cannot be read; "" takes the last one back.
  readonly #onProblem: (text: string) => void;
  readonly #files = byId<HTMLInputElement>("files");
  readonly #attach = byId<HTMLButtonElement>("attach");
  sheets: Upload[] = [];

  constructor(onProblem: (text: string) => void) {
    this.#onProblem = onProblem;
    this.#attach.addEventListener("click", () => this.#files.click());
    this.#files.addEventListener("change", () => void this.take([...(this.#files.files ?? [])]));
  }

  get ids(): string[] { return this.sheets.map((sheet) => sheet.id); }

  clear(): void {
    this.sheets = [];
    this.draw();
  }

  // Reads files one after the other; those that cannot be read are named.
  async take(files: File[]): Promise<void> {
    this.#onProblem("");
    this.#files.value = "";
    this.#attach.disabled = true;
    for (const file of files) {
      try {
        const query = new URLSearchParams({ name: file.name });
        const { sheet, issues } = await call<ImportedTable>(`${path("tables")}?${query}`, { method: "POST", body: file });
        if (sheet && !this.ids.includes(sheet.id)) this.sheets.push({ ...sheet, issues: issues.length });
        announce(`${sheet?.title ?? file.name}: ${word("attached")}`);
      } catch (thrown) {
        this.#onProblem(`${file.name}: ${asProblem(thrown).message}`);
      }
      this.draw();
    }
    this.#attach.disabled = false;
  }

  draw(): void {
    byId("uploads").hidden = !this.sheets.length;
    byId("uploads").replaceChildren(...this.sheets.map((sheet) => {
      const faults = sheet.issues ? ` · ${word("unreadRows")}${word("colon")} ${sheet.issues}` : "";
      const size = `${count(sheet.rows)} ${word("rows")} · ${counted(sheet.columns.length, "columns", "columns")}`;
      const drop = (): void => {
        this.sheets = this.sheets.filter((other) => other !== sheet);
        this.draw();
        this.#attach.focus();
      };
      return el("li", { class: "chip" }, `${sheet.title} · ${size}${faults} `,
        el("button", { type: "button", class: "quiet", "aria-label": `${word("remove")}: ${sheet.title}`, onclick: drop }, "✕"));
    }));
  }
}
