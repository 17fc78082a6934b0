// The values behind a figure as a table: for whoever does not see the drawing, or wants to read it to the digit.
import { columnFormat, count } from "../../base/format";
import { useStore } from "../../base/store";
import { word } from "../../base/words";
import { usePage } from "../../page/context";
import { asTitle } from "./drawing";
import type { Place, Trace } from "./plotly";
import { completed, gridOf } from "./series";

// Of a long series the newest are read; the file has all.
const MOST_ROWS = 200;

export function ValuesTable({ place, title, whole }: { place: Place | null; title: string; whole?: Trace[] }) {
  useStore(usePage().preferences);
  const { header, rows } = gridOf(completed(place?._fullData ?? [], whole), asTitle(place?.layout?.xaxis?.title).text || "x");
  const shown = rows.slice(-MOST_ROWS).map((row) => row.map(readable));
  const formats = header.map((name, column) => columnFormat(name, shown.map((row) => row[column])));
  return (
    <div className="scroll values" tabIndex={0} role="group" aria-label={`${word("values")}${word("colon")} ${title}`}>
      {rows.length > shown.length && <p className="dim">{word("lastRows").replace("{shown}", count(shown.length)).replace("{all}", count(rows.length))}</p>}
      <table>
        <caption className="sr-only">{title}</caption>
        <thead><tr>{header.map((name, column) => <th key={column} scope="col" className={column ? "number" : undefined}>{name}</th>)}</tr></thead>
        <tbody>{shown.map(([first, ...values], line) => (
          <tr key={line}>
            <th scope="row">{formats[0]!(first)}</th>
            {values.map((value, column) => <td key={column} className="number">{formats[column + 1]!(value)}</td>)}
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

// Days without the midnight that Plotly's form of them has, and gaps as gaps.
function readable(value: unknown): unknown {
  if (typeof value === "string") return value.replace(/(?<=^\d{4}-\d\d-\d\d)[T ]00:00:00(\.0+)?Z?$/, "");
  return Number.isNaN(value) ? null : value;
}
