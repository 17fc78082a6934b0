// Which answers rest on a table or a file: they cite it, show it, or cite or show what was computed from it. Pure: tested under Node.
import type { CodeItem, Item } from "./rows";

// What of a run is looked at.
export interface Answered {
  text: string;
  cited: ReadonlySet<number>;
  items: readonly Item[];
}

const names = (text: string, variable: string): boolean => new RegExp(`\\b${variable.replace(/[^\w]/g, "\\$&")}\\b`).test(text);

export function usesSheet(run: Answered, sheet: string): boolean {
  const item = run.items.find((one) => one.sheet?.id === sheet);
  if (!item) return false;
  // Tables that are computed from others can be computed from again.
  const pending = [item];
  const seen = new Set<number>();
  while (pending.length) {
    const { number, variable = "" } = pending.pop()!;
    if (seen.has(number)) continue;
    seen.add(number);
    if (run.cited.has(number)) return true;
    if (!variable) continue;
    if (run.text.includes(`{{table:${variable}}}`)) return true;
    if (run.items.some(({ number: cell, code }) => code && names(code.code, variable) && (run.cited.has(cell) || showsFigure(run.text, code)))) return true;
    pending.push(...run.items.filter(({ computed_from = [] }) => computed_from.includes(variable)));
  }
  return false;
}

const showsFigure = (text: string, code: NonNullable<CodeItem["code"]>): boolean => code.figures.some(({ id }) => text.includes(`{{figure:${id}}}`));

// What an answer rests on: the tables behind what it cites, and the documents and pages that it cites, each once.
export function countSources(run: Answered): number {
  const tables = run.items.flatMap(({ sheet }) => (sheet && usesSheet(run, sheet.id) ? [`sheet ${sheet.id}`] : []));
  // A long page comes in several pieces, each with a number of its own.
  const passages = run.items.flatMap(({ number, passage }) => (passage && run.cited.has(number) ? [`passage ${passage.id}`] : []));
  return new Set([...tables, ...passages]).size;
}

// A document is known by its file's name, which its passages have as their source.
export const usesDocument = (run: Answered, name: string): boolean =>
  run.items.some(({ number, passage }) => passage?.source === name && run.cited.has(number));

// Names of the reader's own documents that a run has read.
export const ownDocuments = ({ items }: Pick<Answered, "items">): string[] =>
  items.flatMap(({ passage }) => (passage?.own && passage.source ? [passage.source] : []));
