// What an edit has changed: words that went and words that came, within the text.
import { type ChangeObject, diffWordsWithSpace } from "diff";

import { say } from "../words";

// Beyond so many changes a comparison word by word takes long, and says no more than the two texts do.
const MOST_CHANGES = 1_500;

// Pure: tested under Node.
export function compare(before: string, after: string): ChangeObject<string>[] {
  const whole: ChangeObject<string>[] = [
    { value: before, removed: true, added: false, count: 1 }, { value: after, removed: false, added: true, count: 1 },
  ];
  return diffWordsWithSpace(before, after, { maxEditLength: MOST_CHANGES }) ?? whole;
}

export function Difference({ before, after }: { before: string; after: string }) {
  if (before === after) return <p className="dim">{say("noDifference")}</p>;
  return (
    <div className="difference" role="group" aria-label={say("difference")} tabIndex={0}>
      {compare(before, after).map(({ value, added, removed }, place) => {
        if (added) return <ins key={place}><span className="sr-only">{` [${say("added")}: `}</span>{value}<span className="sr-only">] </span></ins>;
        if (removed) return <del key={place}><span className="sr-only">{` [${say("removed")}: `}</span>{value}<span className="sr-only">] </span></del>;
        return <span key={place}>{value}</span>;
      })}
    </div>
  );
}
