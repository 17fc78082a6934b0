// What an edit has changed: words that went and words that came, within the text; of a file only what is around them.
import { say } from "../words";
import { compare, fold } from "./compare";

export function Difference({ before, after, isFile = false }: { before: string; after: string; isFile?: boolean }) {
  if (before === after) return <p className="dim">{say("noDifference")}</p>;
  return (
    <div className="difference" role="group" aria-label={say("difference")} tabIndex={0}>
      {compare(before, after).map(({ value, added, removed }, place, { length }) => {
        if (added) return <ins key={place}><span className="sr-only">{` [${say("added")}: `}</span>{value}<span className="sr-only">] </span></ins>;
        if (removed) return <del key={place}><span className="sr-only">{` [${say("removed")}: `}</span>{value}<span className="sr-only">] </span></del>;
        if (!isFile) return <span key={place}>{value}</span>;
        const { head, lines, tail } = fold(value, place > 0, place < length - 1);
        return <span key={place}>{head}{lines > 0 && <span className="dim">{`⋯ ${lines} ${say("sameLines")}\n`}</span>}{tail}</span>;
      })}
    </div>
  );
}
