// The rows of a whole sheet, which the server filters and sorts: fetched in chunks as they come into sight.
import { call, path } from "../base/api";
import type { TablePage } from "../contract/types";

const CHUNK = 200;
// Some 4,000 rows are held; further ones take the place of those that were fetched first.
const MAX_CHUNKS = 20;
const MAX_PAGE = 1000;

export interface View {
  sort: string;
  desc: boolean;
  filter: string;
}

export type Values = unknown[];

export class Rows {
  readonly #sheet: string;
  readonly #onChange: () => void;
  readonly #onProblem: (thrown: unknown) => void;
  #chunks = new Map<number, Values[]>();
  #asked = new Set<number>();
  // Counts the views: what was asked for another one is thrown away.
  #age = 0;
  #view: View = { sort: "", desc: false, filter: "" };
  columns: TablePage["columns"] = [];
  total = 0;
  isLoaded = false;

  constructor(sheet: string, onChange: () => void, onProblem: (thrown: unknown) => void) {
    this.#sheet = sheet;
    this.#onChange = onChange;
    this.#onProblem = onProblem;
  }

  get view(): View { return this.#view; }

  // All values of a column that are here, for its format.
  column(index: number): unknown[] {
    return [...this.#chunks.values()].flatMap((rows) => rows.map((row) => row[index]));
  }

  // A row of the view, or undefined until it is here.
  at(index: number): Values | undefined {
    return this.#chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK];
  }

  // Shows another view from its first row on; the rows that are shown stay until then.
  async change(view: View): Promise<void> {
    this.#view = view;
    this.#age += 1;
    this.#asked.clear();
    await this.#fetch(0, true);
  }

  // Sees to it that these rows come.
  need(first: number, last: number): void {
    for (let chunk = Math.floor(first / CHUNK); chunk <= Math.floor(last / CHUNK); chunk += 1) {
      if (!this.#chunks.has(chunk) && !this.#asked.has(chunk)) void this.#fetch(chunk, false);
    }
  }

  async #fetch(chunk: number, isFirst: boolean): Promise<void> {
    const age = this.#age;
    this.#asked.add(chunk);
    try {
      const page = await this.#page(chunk * CHUNK, CHUNK);
      if (age !== this.#age) return;
      if (isFirst) this.#chunks.clear();
      this.#chunks.set(chunk, page.rows as Values[]);
      const [oldest] = this.#chunks.keys();
      if (this.#chunks.size > MAX_CHUNKS && oldest !== undefined) this.#chunks.delete(oldest);
      this.columns = page.columns;
      this.total = page.total;
      this.isLoaded = true;
      this.#onChange();
    } catch (thrown) {
      if (age === this.#age) this.#onProblem(thrown);
    } finally {
      if (age === this.#age) this.#asked.delete(chunk);
    }
  }

  #page(offset: number, limit: number): Promise<TablePage> {
    const { sort, desc, filter } = this.#view;
    const query = new URLSearchParams({ offset: String(offset), limit: String(limit), sort, desc: String(desc), filter });
    return call<TablePage>(`${path("tables", this.#sheet)}?${query}`);
  }

  // The rows of the view, at most `most` of them, as they are and not as they are shown.
  async all(most: number): Promise<Values[]> {
    const rows: Values[] = [];
    while (rows.length < Math.min(most, this.total)) {
      const page = await this.#page(rows.length, Math.min(MAX_PAGE, most - rows.length));
      if (!page.rows.length) break;
      rows.push(...(page.rows as Values[]));
    }
    return rows;
  }
}
