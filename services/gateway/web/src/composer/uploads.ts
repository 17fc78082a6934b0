// The reader's own files beside the question: tables become sheets, documents and the rows of tables one corpus that is
// searched. All are read by the server as soon as they are chosen, and stay with the conversation until they are taken away.
import { Problem, asProblem, call, path, post } from "../base/api";
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
  // The title of the table as it was read, and whether its rows are found and quoted under it.
  title?: string;
  isQuoted?: boolean;
  // What the server says of the rows that are quoted, such as that only the first ones are.
  note?: string;
  issues: number;
}

const TABLES = [".csv", ".tsv", ".xlsx", ".parquet"];
const DOCUMENTS = [".pdf", ".docx", ".pptx", ".html", ".htm", ".md", ".txt", ".eml"];
// As many as the gateway reads in one call.
const MOST_FURTHER = 64;
export const ACCEPTED = [...TABLES, ...DOCUMENTS].join();
// Whether the corpus has something of the file.
const isFound = ({ passages, isQuoted }: Upload): boolean => passages !== undefined || isQuoted === true;
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
  get corpora(): string[] { return this.items.some(isFound) ? [this.#corpus] : []; }
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
    if (isFound(item)) {
      const rest = this.#renew();
      this.#reading = this.#reading.then(() => this.#read(rest, this.#set));
    }
    this.changed();
  }

  // Gives the corpus up, and returns the files that are to be put into the next. None can lose one document, and none may
  // be searched that the reader has taken away.
  #renew(): Upload[] {
    const rest = this.items.filter(isFound);
    this.#corpus = "";
    for (const item of rest) Object.assign(item, { state: "reading", passages: undefined, isQuoted: false });
    return rest;
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
        // The rows of a table that was read before are only to be found again.
        const tables = item.sheet ? [item] : await this.#readFile(item, limits, set);
        for (const table of tables) problems.push(...await this.#quote(table, set));
        item.state = "read";
        // Taken away while it was read.
        if (set === this.#set && [item, ...tables].some((one) => isFound(one) && !this.items.includes(one))) added.push(...this.#renew());
        announce(`${item.name}: ${word("attached")}`);
      } catch (thrown) {
        this.items = this.items.filter((other) => other !== item);
        problems.push(`${item.name}: ${asProblem(thrown).message}`);
      }
      this.changed();
    }
    if (problems.length) this.onProblem(problems.join("\n"));
  }

  // Returns the tables that the file has become; a document becomes none.
  async #readFile(item: Upload, limits: Limits | null, set: number): Promise<Upload[]> {
    const refusal = refuseFile(item.file, isTable(item.name), this.ids.length, limits);
    if (refusal) throw new Problem({ status: 413, detail: refusal });
    if (isTable(item.name)) return this.#readTable(item, limits?.max_tables ?? Infinity);
    await this.#readDocument(item, set);
    return [];
  }

  // Rows answer what nothing is computed for. Without them a table is still computed on.
  async #quote(item: Upload, set: number): Promise<string[]> {
    const query = new URLSearchParams({ corpus: this.#corpus });
    try {
      const found = await post<ImportedDocument>(`${path("tables", item.imported ?? "", "passages")}?${query}`);
      if (set !== this.#set) return [];
      this.#corpus = found.corpus;
      Object.assign(item, { isQuoted: true, note: found.issues.map(({ message }) => message).join(" ") });
      return [];
    } catch (thrown) {
      return [`${item.name}: ${word("rowsUnquoted")} ${asProblem(thrown).message}`];
    }
  }

  async #readTable(item: Upload, most: number): Promise<Upload[]> {
    const room = Math.max(0, Math.min(most - this.ids.length - 1, MOST_FURTHER));
    const query = new URLSearchParams({ name: item.name, further: String(room) });
    // Once for all sheets of a workbook, which are tables of their own.
    const found = await call<ImportedTable>(`${path("tables")}?${query}`, { method: "POST", body: item.file });
    const tables = found.further.filter(({ sheet }) => sheet);
    // A sheet that is none, and one for which there is no room, counts as an issue.
    const lost = Math.max(0, found.worksheets.length - 1 - tables.length);
    Object.assign(item, this.#take(found), { issues: found.issues.length + lost });
    const further = tables.map((more): Upload => ({ name: more.sheet?.title ?? more.worksheet, file: item.file, state: "read", ...this.#take(more) }));
    this.items = [...this.items, ...further];
    return [item, ...further];
  }

  // The same table again takes the place of the earlier one.
  #take({ sheet, issues }: Pick<ImportedTable, "sheet" | "issues">): Pick<Upload, "sheet" | "imported" | "title" | "issues"> {
    this.items = this.items.filter((other) => !sheet || other.imported !== sheet.id);
    return { sheet: sheet ?? undefined, imported: sheet?.id, title: sheet?.title, issues: issues.length };
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
