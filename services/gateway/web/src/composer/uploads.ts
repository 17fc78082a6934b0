// The reader's own files beside the question: tables become sheets, documents one corpus that is searched. Both are
// read by the server as soon as they are chosen, and stay with the conversation until they are taken away.
import { asProblem, call, path } from "../base/api";
import { announce, byId, el } from "../base/dom";
import { count } from "../base/format";
import { counted, word } from "../base/words";
import type { ImportedDocument, ImportedTable } from "../contract/types";

interface Upload {
  name: string;
  // Kept for a corpus without another document; the browser holds the file by its place, not its bytes.
  file: File;
  state: "reading" | "read";
  sheet?: NonNullable<ImportedTable["sheet"]>;
  passages?: number;
  issues: number;
}

const TABLES = [".csv", ".tsv", ".xlsx", ".parquet"];
const DOCUMENTS = [".pdf", ".docx", ".pptx", ".html", ".htm", ".md", ".txt", ".eml"];
const endOf = (name: string): string => (/\.[^.]*$/.exec(name)?.[0] ?? "").toLowerCase();

export class Uploads {
  // `onProblem(text)` when a file cannot be read; "" takes the last one back.
  readonly #onProblem: (text: string) => void;
  readonly #input = byId<HTMLInputElement>("files");
  readonly #attach = byId<HTMLButtonElement>("attach");
  #corpus = "";
  // Counts the sets of files: what is read for one that the reader has left is not added to the next.
  #set = 0;
  // Files are read one after the other, also those of a second choice.
  #reading: Promise<void> = Promise.resolve();
  items: Upload[] = [];

  constructor(onProblem: (text: string) => void) {
    this.#onProblem = onProblem;
    this.#input.accept = [...TABLES, ...DOCUMENTS].join();
    this.#attach.addEventListener("click", () => this.#input.click());
    this.#input.addEventListener("change", () => {
      const chosen = [...(this.#input.files ?? [])];
      this.#input.value = "";
      void this.take(chosen);
    });
    this.#listen(byId("composer").parentElement!);
  }

  get ids(): string[] { return this.items.flatMap((item) => item.sheet?.id ?? []); }
  get corpora(): string[] { return this.items.some((item) => item.passages !== undefined) ? [this.#corpus] : []; }
  // Resolves when every file that was chosen is read, so that no question goes without one.
  get settled(): Promise<void> { return this.#reading; }

  // Files may be dropped anywhere beside the list of conversations, and pasted into the question.
  #listen(place: HTMLElement): void {
    const brings = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
    const mark = (isOver: boolean): void => { place.classList.toggle("dropping", isOver); };
    place.addEventListener("dragover", (event) => {
      if (!brings(event)) return;
      event.preventDefault();
      mark(true);
    });
    place.addEventListener("dragleave", (event) => { if (!place.contains(event.relatedTarget as Node | null)) mark(false); });
    place.addEventListener("drop", (event) => {
      if (!brings(event)) return;
      event.preventDefault();
      mark(false);
      void this.take([...(event.dataTransfer?.files ?? [])]);
    });
    byId("question").addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      // Spreadsheets put a picture of the cells beside their text.
      if (!files.length || event.clipboardData?.types.includes("text/plain")) return;
      event.preventDefault();
      void this.take(files);
    });
  }

  clear(): void {
    this.#set += 1;
    this.#corpus = "";
    this.items = [];
    this.draw();
  }

  take(files: File[]): Promise<void> {
    this.#onProblem("");
    const added = files.map((file): Upload => ({ name: file.name, file, state: "reading", issues: 0 }));
    this.items.push(...added);
    this.draw();
    this.#reading = this.#reading.then(() => this.#read(added, this.#set));
    return this.#reading;
  }

  // Reads files one after the other; those that cannot be read are named, and spoil no other.
  async #read(added: Upload[], set: number): Promise<void> {
    const problems: string[] = [];
    for (const item of added) {
      if (!this.items.includes(item)) continue;
      try {
        await (TABLES.includes(endOf(item.name)) ? this.#readTable(item) : this.#readDocument(item, set));
        item.state = "read";
        announce(`${item.name}: ${word("attached")}`);
      } catch (thrown) {
        this.items = this.items.filter((other) => other !== item);
        problems.push(`${item.name}: ${asProblem(thrown).message}`);
      }
      this.draw();
    }
    if (problems.length) this.#onProblem(problems.join("\n"));
  }

  async #readTable(item: Upload): Promise<void> {
    const query = new URLSearchParams({ name: item.name });
    const { sheet, issues } = await call<ImportedTable>(`${path("tables")}?${query}`, { method: "POST", body: item.file });
    if (sheet && this.ids.includes(sheet.id)) this.items = this.items.filter((other) => other === item || other.sheet?.id !== sheet.id);
    Object.assign(item, { sheet: sheet ?? undefined, issues: issues.length });
  }

  async #readDocument(item: Upload, set: number): Promise<void> {
    const query = new URLSearchParams({ name: item.name, ...(this.#corpus && { corpus: this.#corpus }) });
    const found = await call<ImportedDocument>(`${path("documents")}?${query}`, { method: "POST", body: item.file });
    if (set !== this.#set) return;
    this.#corpus = found.corpus;
    // The same name again is a new version of the same document.
    this.items = this.items.filter((other) => other === item || other.name !== item.name || other.sheet);
    Object.assign(item, { passages: Number(found.added) + Number(found.duplicates), issues: found.issues.length });
  }

  #drop(item: Upload): void {
    this.items = this.items.filter((other) => other !== item);
    this.#attach.focus();
    const rest = this.items.filter((other) => other.passages !== undefined);
    if (item.passages !== undefined) {
      // A corpus cannot lose one document, and none may be searched that the reader has taken away.
      this.#corpus = "";
      for (const other of rest) Object.assign(other, { state: "reading", passages: undefined });
      this.#reading = this.#reading.then(() => this.#read(rest, this.#set));
    }
    this.draw();
  }

  #describe({ sheet, passages, state, issues }: Upload): string {
    if (state === "reading") return word("readingFile");
    const size = sheet
      ? `${count(sheet.rows)} ${word("rows")} · ${counted(sheet.columns.length, "columns", "columns")}`
      : counted(passages ?? 0, "onePassage", "passages");
    return issues ? `${size} · ${word(sheet ? "unreadRows" : "unreadParts")}${word("colon")} ${issues}` : size;
  }

  draw(): void {
    byId("uploads").hidden = !this.items.length;
    byId("uploads").replaceChildren(...this.items.map((item) => el(
      "li", { class: `chip ${TABLES.includes(endOf(item.name)) ? "sheet" : "document"}`, "aria-busy": String(item.state === "reading") },
      item.state === "reading" && el("span", { class: "spin", "aria-hidden": "true" }),
      el("span", { class: "name", title: item.name }, item.name), el("span", { class: "dim" }, this.#describe(item)),
      el("button", {
        type: "button", class: "quiet", "aria-label": `${word("remove")}: ${item.name}`, onclick: () => this.#drop(item),
      }, "✕"),
    )));
  }
}
