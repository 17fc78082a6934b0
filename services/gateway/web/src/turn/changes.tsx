// What has changed since the time before, under an answer that a schedule has asked for.
import { useQuery } from "@tanstack/react-query";

import { call, path } from "../base/api";
import { columnFormat, minuteOfSecond } from "../base/format";
import { KEYS } from "../base/queries";
import { counted, plural, word } from "../base/words";
import type { RunChanges } from "../contract/types";

// Such as the gateway names the runs of schedules.
export const isScheduled = (run: string): boolean => run.startsWith("schedule_");

export function Changes({ run, isAnswered }: { run: string; isAnswered: boolean }) {
  // A run that failed may have an answer when it was resumed, and is then compared.
  const { data } = useQuery({ queryKey: [...KEYS.changes(run), isAnswered], queryFn: () => call<RunChanges>(path("runs", run, "changes")), staleTime: Infinity });
  if (!data) return null;
  const { before, missed, due, changed, compared, tables, uncompared } = data;
  const said = [due && `${word("askedBySchedule")} ${minuteOfSecond(due)}`, missed && counted(missed, "manyMissed")].filter(Boolean);
  return (
    <aside className="changes" aria-label={word("since")}>
      {said.length > 0 && <p className="dim">{said.join(" · ")}</p>}
      {isAnswered && !before && <p>{word("noneBefore")}</p>}
      {before && !changed && !tables.length && !uncompared && <p>{word("noChange")}</p>}
      {changed > 0 && <p>{`${word("since")}${word("colon")} ${changed} / ${compared} ${plural("figuresDiffer", changed)}`}</p>}
      {changed > 0 && <Figures figures={data.figures} rest={changed - data.figures.length} />}
      {tables.map((table, place) => <Table key={place} table={table} />)}
      {uncompared > 0 && <p className="dim">{counted(uncompared, "uncompared")}</p>}
    </aside>
  );
}

function Figures({ figures, rest }: { figures: RunChanges["figures"]; rest: number }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table className="columns"><tbody>{figures.map(({ name, before, after }) => (
        <Row key={name} name={name} before={before} after={after} />
      ))}</tbody></table>
      {rest > 0 && <p className="dim">{`${rest} ${word("furtherOnes")}`}</p>}
    </div>
  );
}

function Row({ name, before, after }: { name: string; before: unknown; after: unknown }) {
  const isNumber = typeof before === "number" && typeof after === "number";
  const difference = isNumber ? Number((after - before).toPrecision(12)) : null;
  const format = columnFormat(name, [before, after, difference]);
  return (
    <tr>
      <td>{name}</td><td className="number">{format(before)}</td><td aria-hidden>→</td><td className="number">{format(after)}</td>
      <td className="number dim">{difference === null ? "" : `${difference > 0 ? "+" : ""}${format(difference)}`}</td>
    </tr>
  );
}

function Table({ table: { title, added, removed, changed, cells } }: { table: RunChanges["tables"][number] }) {
  const counts = [added && counted(added, "rowsMore"), removed && counted(removed, "rowsFewer"), changed && counted(changed, "cellsDiffer")].filter(Boolean);
  return (
    <section>
      <p>{`${title}${word("colon")} ${counts.join(" · ")}`}</p>
      {cells.length > 0 && <Figures figures={cells.map((cell) => ({ ...cell, name: `${cell.row} · ${cell.column}` })) as RunChanges["figures"]} rest={changed - cells.length} />}
    </section>
  );
}
