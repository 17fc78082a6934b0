// The live table behind a reference: the server filters and sorts the whole sheet, and the rows in sight are drawn.
import { type Column, type ColumnDef, columnPinningFeature, columnVisibilityFeature, rowSortingFeature, tableFeatures, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ClipboardEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { asProblem, path } from "../../base/api";
import { announce } from "../../base/announce";
import { type Scale, columnFormat, computation, count, provenance } from "../../base/format";
import { negativesOf } from "../../base/negatives";
import { useStore } from "../../base/store";
import { plural, word } from "../../base/words";
import { usePage } from "../../page/context";
import { useSheetTitle } from "../../side/sheet-views";
import type { Material, TablePage } from "../../contract/types";
import { ColumnsMenu } from "./columns-menu";
import { scaleOf, useLargest } from "./number-forms";
import { NumberMenu, describeScale } from "./number-menu";
import { useRows } from "./rows";
import { type Values, type View, WHOLE, isNumeric, readAll } from "./sheet";
import { asTsv, cellsAsTsv } from "./tsv";

type SheetOf = Material & Required<Pick<Material, "sheet">>;

const ROW_PX = 27;
const OVERSCAN = 8;
// A key that is typed is followed by another one within this time.
const TYPING_MS = 200;
// What a clipboard and a spreadsheet take at once; the files have all rows.
const MOST_COPIED = 20_000;
const FEATURES = tableFeatures({ columnPinningFeature, columnVisibilityFeature, rowSortingFeature });
type Features = typeof FEATURES;
// A row of the view with its place in it; without values until they are here.
interface Line {
  index: number;
  values: Values | undefined;
}
export type SheetColumn = Column<Features, Line>;

const columnsOf = (columns: TablePage["columns"]): ColumnDef<Features, Line>[] => columns.map(({ name, type }, place) => ({
  id: String(place), header: name, accessorFn: (line) => line.values?.[place], enableSorting: true, meta: { isNumber: isNumeric(type) },
}));

// `onData` leads to the table among the data of its run, from elsewhere.
export function LiveTable({ item, onData }: { item: SheetOf; onData?: () => void }) {
  const { sheet, variable } = item;
  const title = useSheetTitle(sheet);
  const [wanted, setWanted] = useState<View>(WHOLE);
  const [problem, setProblem] = useState("");
  const scroll = useRef<HTMLDivElement>(null);
  const [total, setTotal] = useState(0);
  const virtual = useVirtualizer({ count: total, getScrollElement: () => scroll.current, estimateSize: () => ROW_PX, overscan: OVERSCAN });
  const inSight = virtual.getVirtualItems();
  const [first, last] = [inSight[0]?.index ?? 0, inSight.at(-1)?.index ?? -1];
  const rows = useRows(sheet.id, wanted, first, last);
  if (rows.total !== total) setTotal(rows.total);
  const { view } = rows;
  useEffect(() => { if (scroll.current) scroll.current.scrollTop = 0; }, [view]);
  useEffect(() => { if (rows.isLoaded && view.filter) announce(`${count(rows.total)} ${plural("rows", rows.total)}`); }, [rows.isLoaded, rows.total, view.filter]);

  const names = rows.columns.map(({ name }) => name).join("\n");
  const columns = useMemo(() => columnsOf(rows.columns), [names]);
  const data = useMemo(() => inSight.map(({ index }) => ({ index, values: rows.at(index) })), [inSight, rows]);
  const table = useTable({
    features: FEATURES, columns, data, manualSorting: true, getRowId: (line) => String(line.index),
    initialState: { columnPinning: { start: ["0"], end: [] } },
  });
  const { numbers, preferences } = usePage();
  // Marks of decimals and of negative numbers change with the reader's settings.
  useStore(preferences);
  const form = useStore(numbers).of(sheet.id);
  const shown = table.getVisibleLeafColumns();
  const pinned = table.getIsSomeColumnsPinned("start") ? shown.filter((column) => column.getIsPinned() === "start") : [];
  const head = useRef<HTMLTableRowElement>(null);
  const lefts = useLefts(head, pinned, `${names} ${shown.length} ${rows.isLoaded} ${form.scale} ${form.decimals}`);
  const largest = useLargest(rows);
  const scaleIn = (name: string, scale: Scale): Scale => scaleOf(name, largest[rows.columns.findIndex((column) => column.name === name)], scale);
  const formats = new Map(rows.columns.map(({ name }, place) =>
    [String(place), columnFormat(name, rows.column(place), { ...form, scale: scaleIn(name, form.scale) })]));

  const failure = problem || (rows.problem ? asProblem(rows.problem).message : "");
  const order = (name: string): void => {
    const isSorted = wanted.sort === name;
    setWanted({ ...wanted, sort: isSorted && wanted.desc ? "" : name, desc: isSorted && !wanted.desc });
  };
  const unitOf = (name: string): string => sheet.columns.find((column) => column.name === name)?.unit ?? "";
  const shownIn = (name: string): string => [unitOf(name), describeScale(scaleIn(name, form.scale))].filter(Boolean).join(" · ");
  // All rows of the view, with full precision, units and source, for a spreadsheet.
  const copy = async (): Promise<void> => {
    const header = rows.columns.map(({ name }) => (unitOf(name) ? `${name} (${unitOf(name)})` : name));
    const values = await readAll(sheet.id, view, rows.total, MOST_COPIED);
    await navigator.clipboard.writeText(asTsv(header, values, [title, ...originOf(item)]));
    announce(`${count(values.length)} ${plural("rows", values.length)}: ${word("copied")}`);
  };

  return (
    <figure className="table" data-table={variable} aria-busy={rows.isBusy || undefined} aria-label={title}>
      <figcaption>
        <span className="tag">{variable}</span><strong>{title}</strong><span className="spacer" />
        <RowFilter onFilter={(filter) => setWanted({ ...wanted, filter })} />
        <NumberMenu form={form} isReached={(scale) => rows.columns.some(({ name }) => scaleIn(name, scale) === scale)}
          onChoose={(chosen) => numbers.choose(sheet.id, chosen)} />
        <ColumnsMenu columns={table.getAllLeafColumns()} />
        <CopyButton copy={copy} onProblem={setProblem} />
        {onData && <button type="button" className="quiet" title={word("openInData")} onClick={onData}>{word("data")}</button>}
        {["csv", "xlsx"].map((format) => <a key={format} href={fileOf(item, title, format)} download>{format.toUpperCase()}</a>)}
      </figcaption>
      <div ref={scroll} className="scroll" tabIndex={0} role="group" aria-label={title} onCopy={copySelection}>
        <div className="sizer" style={{ height: total ? `${(head.current?.offsetHeight ?? 2 * ROW_PX) + total * ROW_PX}px` : undefined }}>
          <table aria-rowcount={total + 1} style={{ marginTop: `${first * ROW_PX}px` }}>
            <thead><tr ref={head}>{shown.map((column) => (
              <Heading key={column.id} column={column} view={view} unit={shownIn(String(column.columnDef.header))} left={lefts.get(column.id)} onOrder={order} />
            ))}</tr></thead>
            <tbody>{table.getRowModel().rows.map((row) => (
              <tr key={row.id} aria-rowindex={row.original.index + 2}>{row.getVisibleCells().map((cell) => {
                const value = cell.getValue();
                return (
                  <td key={cell.id} className={classOf(cell.column, lefts)} style={{ left: lefts.get(cell.column.id) }}
                    title={typeof value === "number" ? String(value) : undefined}>
                    {row.original.values ? formats.get(cell.column.id)?.(value) : "…"}
                  </td>
                );
              })}</tr>
            ))}</tbody>
          </table>
          {failure ? <p className="dim none"><span className="chip bad">{`${variable}: ${failure}`}</span></p>
            : rows.isLoaded && !total && <p className="dim none">{word("noRows")}</p>}
        </div>
      </div>
      <div className="foot">
        <span className="dim origin">{originOf(item).join(" · ")}</span><span className="spacer" />
        <span className="dim">{rangeOf(scroll.current, total, virtual.scrollOffset ?? 0, head.current?.offsetHeight ?? 0)}</span>
      </div>
    </figure>
  );
}

const classOf = (column: SheetColumn, lefts: Map<string, number>): string =>
  [(column.columnDef.meta as { isNumber?: boolean } | undefined)?.isNumber && "number", lefts.has(column.id) && "pinned"].filter(Boolean).join(" ");

function Heading({ column, view, unit, left, onOrder }: {
  column: SheetColumn; view: View; unit: string; left: number | undefined; onOrder: (name: string) => void;
}) {
  const name = String(column.columnDef.header);
  const isSorted = view.sort === name;
  const lefts = new Map(left === undefined ? [] : [[column.id, left]]);
  return (
    <th scope="col" className={classOf(column, lefts)} style={{ left }} aria-sort={!isSorted ? "none" : view.desc ? "descending" : "ascending"}>
      <button type="button" title={`${word("sort")} ${name}`} onClick={() => onOrder(name)}>
        {name}<i aria-hidden>{!isSorted ? "" : view.desc ? "▾" : "▴"}</i>
      </button>
      <small>{unit || "\u00a0"}</small>
    </th>
  );
}

// How far from the left each pinned column stays: behind the pinned ones before it.
function useLefts(head: { current: HTMLTableRowElement | null }, pinned: SheetColumn[], occasion: string): Map<string, number> {
  const [lefts, setLefts] = useState(new Map<string, number>());
  const ids = pinned.map((column) => column.id).join();
  useLayoutEffect(() => {
    const cells = [...(head.current?.children ?? [])] as HTMLElement[];
    let left = 0;
    setLefts(new Map(ids.split(",").filter(Boolean).map((id, place) => {
      const at: [string, number] = [id, left];
      left += cells[place]?.offsetWidth ?? 0;
      return at;
    })));
  }, [ids, occasion, head]);
  return lefts;
}

// Cells that are marked are copied as a spreadsheet takes them, with the precision that they have.
function copySelection(event: ClipboardEvent<HTMLElement>): void {
  const rows = markedCells(event.currentTarget, getSelection());
  // A part of one cell is copied as it is written.
  if (rows.flat().length < 2) return;
  event.preventDefault();
  event.clipboardData.setData("text/plain", cellsAsTsv(rows.map((cells) => cells.map((cell) => cell.title || (cell.textContent ?? "")))));
}

const markedCells = (place: HTMLElement, selection: Selection | null): HTMLElement[][] =>
  [...place.querySelectorAll("tr")].map((row) => [...row.querySelectorAll<HTMLElement>("th, td")].filter((cell) => selection?.containsNode(cell, true)))
    .filter((cells) => cells.length);

function rangeOf(place: HTMLElement | null, total: number, top: number, head: number): string {
  const first = Math.min(Math.floor(top / ROW_PX) + 1, total);
  const last = Math.min(Math.ceil((top + (place?.clientHeight ?? 0) - head) / ROW_PX), total);
  return `${total ? `${count(first)}–${count(Math.max(first, last))}` : "0"} ${word("of")} ${count(total)}`;
}

function originOf(item: SheetOf): string[] {
  const { sources, asOf } = provenance(item.sheet);
  return [computation(item), sources && `${word("source")}: ${sources}`, asOf && `${word("asOf")} ${asOf}`].filter(Boolean);
}

const fileOf = ({ sheet }: SheetOf, name: string, format: string): string =>
  `${path("tables", sheet.id, "export")}?${new URLSearchParams({ format, name, ...negativesOf() })}`;

function RowFilter({ onFilter }: { onFilter: (words: string) => void }) {
  const typing = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef(onFilter);
  latest.current = onFilter;
  useEffect(() => () => clearTimeout(typing.current), []);
  return <input type="search" className="narrow" maxLength={200} aria-label={word("filterRows")} placeholder={word("filterRows")}
    onChange={({ target }) => {
      clearTimeout(typing.current);
      typing.current = setTimeout(() => latest.current(target.value), TYPING_MS);
    }} />;
}

function CopyButton({ copy, onProblem }: { copy: () => Promise<void>; onProblem: (text: string) => void }) {
  const [state, setState] = useState<"" | "busy" | "copied">("");
  const act = (): void => {
    setState("busy");
    copy().then(() => setState("copied"), (thrown: unknown) => {
      setState("");
      onProblem(thrown instanceof DOMException ? word("noClipboard") : asProblem(thrown).message);
    });
  };
  return <button type="button" className="quiet" title={word("copyRows")} disabled={state === "busy"} onClick={act}>{word(state === "copied" ? "copied" : "copy")}</button>;
}
