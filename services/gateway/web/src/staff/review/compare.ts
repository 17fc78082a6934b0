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
