// Two texts word by word. Pure: tested under Node.
import { type ChangeObject, diffWordsWithSpace } from "diff";

// Beyond so many changes a comparison word by word takes long, and says no more than the two texts do.
const MOST_CHANGES = 1_500;

export function compare(before: string, after: string): ChangeObject<string>[] {
  const whole: ChangeObject<string>[] = [
    { value: before, removed: true, added: false, count: 1 }, { value: after, removed: false, added: true, count: 1 },
  ];
  return diffWordsWithSpace(before, after, { maxEditLength: MOST_CHANGES }) ?? whole;
}

// Lines of what is the same that stay in sight beside a change.
const CONTEXT = 3;

// What is the same in both texts, parted so that lines far from a change before or behind it can be left out.
export function fold(same: string, isBehind: boolean, isBefore: boolean): { head: string; lines: number; tail: string } {
  const lines = same.split("\n");
  // The first and the last line go on in a change, so that they are no whole ones.
  const kept = { head: isBehind ? CONTEXT + 1 : 0, tail: isBefore ? CONTEXT + 1 : 0 };
  const left = lines.length - kept.head - kept.tail;
  if (left < 2) return { head: same, lines: 0, tail: "" };
  const head = lines.slice(0, kept.head).map((line) => `${line}\n`).join("");
  return { head, lines: left, tail: kept.tail ? lines.slice(-kept.tail).join("\n") : "" };
}
