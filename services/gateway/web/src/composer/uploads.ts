// The reader's own files beside the question: tables become sheets, documents one corpus that is searched. Both are
// read by the server as soon as they are chosen, and stay with the conversation until they are taken away.
import { Problem, asProblem, call, path } from "../base/api";
import { announce } from "../base/announce";
import { Store } from "../base/store";
import { word } from "../base/words";
import type { ImportedDocument, ImportedTable, Limits, MeantColumn, Sheet } from "../contract/types";
import { refuseFile } from "./limits";
import { type MadeSeries, idsOf } from "./meanings";

export interface Upload {
  name: string;
  // Kept for a corpus without another document; the browser holds the file by its place, not its bytes.
  file: File;
  state: "reading" | "read";
  sheet?: Sheet;
  // The table as it was read, of which `sheet` may be what was made with the meaning of its columns.
  imported?: string;
  // What was taken for that meaning; nothing before.
  columns?: MeantColumn[];
  passages?: number;
  issues: number;
}

const TABLES = [".csv", ".tsv", ".xlsx", ".parquet"];
const DOCUMENTS = [".pdf", ".docx", ".pptx", ".html", ".htm", ".md", ".txt", ".eml"];
export const ACCEPTED = [...TABLES, ...DOCUMENTS].join();
const endOf = (name: string): string => (/\.[^.]*$/.exec(name)?.[0] ?? "").toLowerCase();
export const isTable = (name: string): boolean => TABLES.includes(endOf(name));

export class Uploads extends Store {
  // Called with what cannot be read; "" takes the last one back.
  onProblem: (text: string) => void = () => {};
  #corpus = "";
  // Counts the sets of files: what is read for one that the reader has left is not added to the next.
  #set = 0;
  // Files are read one after the other, also those of a second choice.
  #reading: Promise<void> = Promise.resolve();
  items: Upload[] = [];
  readonly #findLimits: () => Promise<Limits | null>;

  constructor(findLimits: () => Promise<Limits | null>) {
    super();
    this.#findLimits = findLimits;
  }

  get ids(): string[] { return this.items.flatMap(idsOf); }
  get corpora(): string[] { return this.items.some((item) => item.passages !== undefined) ? [this.#corpus] : []; }
  // Resolves when every file that was chosen is read, so that no question goes without one.
  get settled(): Promise<void> { return this.#reading; }

  clear(): void {
    this.#set += 1;
    this.#corpus = "";
    this.items = [];
    this.changed();
  }

  take(files: File[]): Promise<void> {
    this.onProblem("");
    const added = files.map((file): Upload => ({ name: file.name, file, state: "reading", issues: 0 }));
    this.items = [...this.items, ...added];
    this.changed();
    this.#reading = this.#reading.then(() => this.#read(added, this.#set));
    return this.#reading;
  }

  drop(item: Upload): void {
    this.items = this.items.filter((other) => other !== item);
    const rest = this.items.filter((other) => other.passages !== undefined);
    if (item.passages !== undefined) {
      // A corpus cannot lose one document, and none may be searched that the reader has taken away.
      this.#corpus = "";
      for (const other of rest) Object.assign(other, { state: "reading", passages: undefined });
      this.#reading = this.#reading.then(() => this.#read(rest, this.#set));
    }
    this.changed();
  }

  // Takes what was made of a table with the meaning of its columns, in the place of the table as it was read.
  adopt(item: Upload, columns: MeantColumn[], { sheet, issues }: MadeSeries): void {
    Object.assign(item, { sheet, columns, issues });
    this.changed();
  }

  // Reads files one after the other; those that cannot be read are named, and spoil no other.
  async #read(added: Upload[], set: number): Promise<void> {
    const problems: string[] = [];
    const limits = await this.#findLimits();
    for (const item of added) {
      if (!this.items.includes(item)) continue;
      try {
        const refusal = refuseFile(item.file, isTable(item.name), this.ids.length, limits);
        if (refusal) throw new Problem({ status: 413, detail: refusal });
        await (isTable(item.name) ? this.#readTable(item, limits?.max_tables ?? Infinity) : this.#readDocument(item, set));
        item.state = "read";
        announce(`${item.name}: ${word("attached")}`);
      } catch (thrown) {
        this.items = this.items.filter((other) => other !== item);
        problems.push(`${item.name}: ${asProblem(thrown).message}`);
      }
      this.changed();
    }
    if (problems.length) this.onProblem(problems.join("\n"));
  }

  async #readTable(item: Upload, most: number): Promise<void> {
    const found = await this.#sendTable(item, "");
    Object.assign(item, found);
    // The other sheets of a workbook are tables of their own; one that is none counts as an issue.
    for (const worksheet of found.worksheets.slice(1)) {
      try {
        if (this.ids.length >= most) throw new Problem({ status: 413, detail: worksheet });
        const more = await this.#sendTable(item, worksheet);
        this.items = [...this.items, { name: more.sheet?.title ?? worksheet, file: item.file, state: "read", ...more }];
      } catch (thrown) {
        if (!(thrown instanceof Problem)) throw thrown;
        item.issues += 1;
      }
    }
  }

  async #sendTable(item: Upload, worksheet: string): Promise<Pick<Upload, "sheet" | "imported" | "issues"> & { worksheets: string[] }> {
    const query = new URLSearchParams({ name: item.name, ...(worksheet && { worksheet }) });
    const { sheet, issues, worksheets } = await call<ImportedTable>(`${path("tables")}?${query}`, { method: "POST", body: item.file });
    this.items = this.items.filter((other) => other === item || !sheet || other.imported !== sheet.id);
    return { sheet: sheet ?? undefined, imported: sheet?.id, issues: issues.length, worksheets };
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
}
