// What the checks found in an answer, put into its text as marks that Markdown leaves alone. Pure: tested under node.
//
// A finding on a few words opens and closes around them; one on a sentence or paragraph is a point at its end. The
// marks are characters of the private use area; those that a model writes itself become U+FFFD.

import type { Finding } from "../contract/types";

// Words, marked words, or the point of a finding.
export type Part = string | { index: number; text?: string };

const OPEN = "\uE000";
const POINT = "\uE001";
const END = "\uE002";
const CLOSE = "\uE003";
const OWN = /[\uE000-\uE003]/g;
const MARK = /[\uE000\uE001](\d+)\uE002|\uE003/g;
const WORDS = 60;

const KINDS: Record<string, string> = {
  FINDING_KIND_NUMBER: "number", FINDING_KIND_TIME: "time", FINDING_KIND_EVENT: "event",
  FINDING_KIND_UNSUPPORTED: "unsupported", FINDING_KIND_UNCITED: "uncited", FINDING_KIND_UNRESOLVED: "unresolved",
  FINDING_KIND_TYPED_TABLE: "typed_table", FINDING_KIND_REPEATED: "repeated", FINDING_KIND_FIGURE: "figure",
  FINDING_KIND_TRUNCATED: "truncated", FINDING_KIND_SECTION: "section",
  FINDING_KIND_UNCHECKED: "unchecked", FINDING_KIND_LENGTH: "length",
};
export const kindOfFinding = (finding: Pick<Finding, "kind">): string => KINDS[finding.kind] ?? "number";

// Tables and figures that are flagged carry a flag of their own; removed citations have no place any more.
const PLACED = new Set(["number", "time", "event", "unsupported", "uncited", "repeated", "truncated", "unchecked"]);

// Offsets of the contract count code points, JavaScript's count UTF-16 units.
function units(text: string): (offset: number) => number {
  if (!/[\uD800-\uDFFF]/.test(text)) return (offset) => offset;
  const places = [0];
  let place = 0;
  for (const char of text) places.push((place += char.length));
  return (offset) => places[Math.min(offset, places.length - 1)]!;
}

export function marked(source: string, findings: Finding[]): string {
  const text = source.replace(OWN, "\uFFFD");
  const at = units(text);
  const inserts: [number, number, string][] = [];
  let covered = 0;
  // In the order of the text: a finding that is told late may stand early, and has its words marked all the same.
  const order = findings.map((finding, index) => ({ finding, index })).sort((a, b) => a.finding.start - b.finding.start);
  for (const { finding, index } of order) {
    if (!PLACED.has(kindOfFinding(finding))) continue;
    const [start, end] = [at(finding.start), at(finding.end)];
    const words = text.slice(start, end);
    if (!words.trim()) continue;
    if (words.length <= WORDS && start >= covered && !/[\n[\]*_`|{}<>\\]/.test(words)) {
      inserts.push([start, 1, `${OPEN}${index}${END}`], [end, 0, CLOSE]);
      covered = end;
    } else inserts.push([end, 2, `${POINT}${index}${END}`]);
  }
  inserts.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let out = "";
  let done = 0;
  for (const [place, , mark] of inserts) {
    out += text.slice(done, place) + mark;
    done = place;
  }
  return out + text.slice(done);
}

export const unmarked = (text: string): string => text.replace(MARK, "");

// A text of the tree in parts: strings, {index, text} for marked words, {index} for points. A mark whose other end
// stands elsewhere in the tree is a point.
export function parts(text: string): Part[] {
  const out: Part[] = [];
  let done = 0;
  let open: { index: number; after: number } | null = null;
  const say = (until: number): void => { if (until > done) out.push(text.slice(done, until)); };
  for (const found of text.matchAll(MARK)) {
    if (found[0] === CLOSE) {
      if (open) out.push({ index: open.index, text: text.slice(open.after, found.index) });
      else say(found.index);
      open = null;
    } else {
      if (open) out.push({ index: open.index }, text.slice(open.after, found.index));
      else say(found.index);
      const index = Number(found[1]);
      open = found[0][0] === OPEN ? { index, after: found.index + found[0].length } : null;
      if (!open) out.push({ index });
    }
    done = found.index + found[0].length;
  }
  if (open) out.push({ index: open.index });
  say(text.length);
  return out;
}
