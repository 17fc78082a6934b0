// What an edit has changed: words that went and words that came, within the text.
import { say } from "../words";
import { compare } from "./compare";

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
