// Questions that may come next, from what a run's record has and nothing else: a name that has data in the place of one
// that has none, what the answer has left open, and the time after it as far as the data go. Pure: tested under node.
import type { Material, Slot } from "../contract/types";
import type { Run } from "./run";
import { reworded, stateOf } from "./slots";

export interface Suggestion {
  question: string;
  why: "nearest" | "open" | "later";
}

type Known = Pick<Run, "question" | "reading" | "items">;

const MOST = 3;
const HAN = /\p{Script=Han}/u;
const YEAR = /(?<!\d)(?:1[89]|20|21)\d\d(?!\d)/g;
const WHOLE_YEARS = /^(\d{4})-01-01\/(\d{4})-12-31$/;
const ASKABLE = ["MENTION_KIND_MEASURE", "MENTION_KIND_INDICATOR"];

export function suggest(run: Known): Suggestion[] {
  const found = [...suggestNearest(run), ...suggestOpen(run), ...suggestLater(run)];
  const distinct = new Map(found.map((one) => [one.question, one]));
  distinct.delete(run.question);
  return [...distinct.values()].slice(0, MOST);
}

// What was asked for and has no data, where the run itself has named what comes nearest.
function suggestNearest({ question, items }: Known): Suggestion[] {
  return items.flatMap(({ missing }): Suggestion[] => {
    // Of a period that is no name but the day where the data begin or end.
    const name = missing?.reason === "MISSING_REASON_NO_DATA_IN_PERIOD" ? undefined : missing?.nearest[0];
    // Words that stand there twice may mean two things, and a name that stands there already would be compared with itself.
    if (!missing?.subject || !name || question.split(missing.subject).length !== 2 || question.includes(name)) return [];
    return [{ question: question.replace(missing.subject, () => name), why: "nearest" }];
  });
}

// A measure that the answer does not cover, asked for alone, with the names and the time that were understood.
function suggestOpen({ question, reading }: Known): Suggestion[] {
  const slots = reading?.slots ?? [];
  const textsOf = (kind: string): string[] => slots.filter((slot) => slot.kind === kind && stateOf(slot) === "filled").map(({ text }) => text);
  const names = textsOf("MENTION_KIND_ENTITY");
  const period = textsOf("MENTION_KIND_PERIOD")[0] ?? "";
  const filled = slots.filter((slot) => ASKABLE.includes(slot.kind ?? "") && stateOf(slot) === "filled");
  if (!names.length || !filled.length) return [];
  const isChinese = HAN.test(question);
  return slots.filter((slot) => ASKABLE.includes(slot.kind ?? "") && stateOf(slot) === "open").map(({ text }) => ({
    question: isChinese ? `${names.join("和")}${period}的${text}` : [`${text} of ${names.join(" and ")}`, period].filter(Boolean).join(", "), why: "open",
  }));
}

const lastDay = (items: Material[]): string =>
  items.flatMap(({ sheet }) => sheet?.columns.map((column) => column.as_of) ?? []).filter(Boolean).sort().at(-1) ?? "";

// The years after those that were asked for, as many, where the tables of the answer reach to their end.
function suggestLater({ reading, items }: Known): Suggestion[] {
  return (reading?.slots ?? []).flatMap((slot: Slot): Suggestion[] => {
    const [, first, last] = WHOLE_YEARS.exec(slot.kind === "MENTION_KIND_PERIOD" && stateOf(slot) === "filled" ? slot.value ?? "" : "") ?? [];
    if (!reading || !first || !last || (slot.end ?? 0) <= (slot.start ?? 0)) return [];
    // The words must say these years and no others, or their shift would mean something else.
    const said = slot.text.match(YEAR) ?? [];
    if (said[0] !== first || said.at(-1) !== last || said.length > 2) return [];
    const years = Number(last) - Number(first) + 1;
    if (lastDay(items) < `${Number(last) + years}-12-31`) return [];
    const words = slot.text.replace(YEAR, (year) => String(Number(year) + years));
    return [{ question: reworded(reading.question, slot, words), why: "later" }];
  });
}
