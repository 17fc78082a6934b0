// What earlier answers have concluded: of whom, what, when and by which run, and what they had concluded before.
import { useQuery } from "@tanstack/react-query";

import { asProblem, call, path } from "../base/api";
import { day } from "../base/format";
import { KEYS } from "../base/queries";
import { word } from "../base/words";
import type { Stance, Stances } from "../contract/types";
import { Chip } from "./parts";

// As many as one answer of memory holds.
const MOST = 1000;
const readStances = (): Promise<Stances> => call<Stances>(`${path("stances")}?page_size=${MOST}`);

// What is said of one measure of one entity over one period, newest first.
export interface Concluded {
  key: string;
  newest: Stance;
  earlier: Stance[];
}

function group(stances: Stance[]): Concluded[] {
  const groups = new Map<string, Concluded>();
  for (const stance of stances) {
    const key = [stance.entity, stance.measure, stance.start_date, stance.end_date].join("\n");
    const known = groups.get(key);
    if (known) known.earlier.push(stance);
    else groups.set(key, { key, newest: stance, earlier: [] });
  }
  return [...groups.values()];
}

// Other figures than now; the same one again is no contradiction.
const isContradicted = ({ newest, earlier }: Concluded): boolean => earlier.some(({ value }) => value !== newest.value);

export function StanceSettings() {
  const { data, error } = useQuery({ queryKey: KEYS.stances, queryFn: readStances });
  if (!data) return <p role="status" className={error ? "chip bad" : "dim"}>{error ? asProblem(error).message : word("readingList")}</p>;
  const concluded = group(data.stances);
  return (
    <>
      <p className="dim note">{word("stancesNote")}</p>
      {concluded.length ? <ul className="things">{concluded.map((one) => <Entry key={one.key} concluded={one} />)}</ul> : <p className="dim">{word("noStances")}</p>}
    </>
  );
}

function Entry({ concluded }: { concluded: Concluded }) {
  const { newest, earlier } = concluded;
  const period = [newest.start_date, newest.end_date].filter(Boolean).join(" – ");
  return (
    <li data-stance={newest.id}>
      <div className="thing-head">
        <strong>{newest.entity}</strong><span className="dim">{[newest.measure, period].filter(Boolean).join(" · ")}</span><span className="spacer" />
        {isContradicted(concluded) && <Chip tone="warn">{word("contradicted")}</Chip>}
      </div>
      <p>{newest.view}</p>
      <Origin stance={newest} />
      {earlier.length > 0 && (
        <details>
          <summary>{word("earlierStances").replace("{count}", String(earlier.length))}</summary>
          <ul>{earlier.map((one) => <li key={one.id}><p>{one.view}</p><Origin stance={one} /></li>)}</ul>
        </details>
      )}
    </li>
  );
}

// When it was concluded, on what data, and the run that did it.
function Origin({ stance }: { stance: Stance }) {
  const said = [day(stance.create_time), stance.as_of && `${word("asOf")} ${stance.as_of}`].filter(Boolean).join(" · ");
  return (
    <p className="dim">
      {said} {stance.run_id && <a href={`?child=1#run=${encodeURIComponent(stance.run_id)}`} target="_blank" rel="noreferrer">{word("sourceRun")}</a>}
    </p>
  );
}
