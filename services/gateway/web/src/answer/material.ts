// What a material is called and where it is from, in one line each.
import { computation, day, provenance, sizeOf } from "../base/format";
import { language, word } from "../base/words";
import type { CodeRecord, SheetView } from "../contract/types";
import type { Item } from "../run/rows";
import type { Run } from "../run/run";
import { titleIn, useSheetViews } from "../side/sheet-views";

const firstLine = (code: string): string => code.split("\n").find((line) => line.trim() && !/^\s*(#|import |from )/.test(line)) ?? code;

export function titleOf(item: Item, views: SheetView[]): string {
  if (item.passage) return item.passage.title || item.passage.id;
  if (item.sheet) return titleIn(views, item.sheet);
  if (item.code) return item.purpose || firstLine(item.code.code);
  return `${word("missing")}: ${item.missing?.subject ?? ""}`;
}

export const Title = ({ item }: { item: Item }): string => titleOf(item, useSheetViews());

// How surely a scanned page was read; "" for text of the file itself.
const recognized = (confidence: number): string => (confidence ? `OCR ${Math.round(100 * confidence)} %` : "");

// A page as both languages say it; "" for what has no pages.
export const pageOf = (page: number): string => (page ? (language() === "zh" ? `第 ${page} ${word("page")}` : `${word("page")} ${page}`) : "");

export function originOf(item: Item): string {
  if (item.passage) return [item.passage.source, pageOf(item.passage.page), recognized(item.passage.ocr_confidence), day(item.passage.publish_time)].filter(Boolean).join(" · ");
  if (item.sheet) {
    const { sources, asOf } = provenance(item.sheet);
    const size = sizeOf(item.sheet);
    return [item.variable, size, computation(item), sources, asOf && `${word("asOf")} ${asOf}`].filter(Boolean).join(" · ");
  }
  if (item.code) return `${word("code")} · ${item.code.ok ? word("ok") : word("failed")}`;
  return item.missing?.detail ?? "";
}

// Where the data of a cell come from: the sources of the tables that its code names.
export function sourcesOf(run: Run, code: CodeRecord): string {
  const names = new Set<string>(code.code.match(/\bsheet_\d+\b/g) ?? []);
  const items = [...names].map((name) => run.sheet(name)).filter((item) => item !== undefined);
  const found = items.map((item) => provenance(item.sheet));
  const sources = [...new Set(found.map((one) => one.sources).filter(Boolean))].join(", ");
  const asOf = found.map((one) => one.asOf).sort().at(-1);
  return [sources && `${word("source")}: ${sources}`, asOf && `${word("asOf")} ${asOf}`].filter(Boolean).join(" · ");
}
