// The values behind a figure as rows for a spreadsheet. Pure: tested under Node.
import type { Trace, Values } from "./plotly";

export interface Grid {
  header: string[];
  rows: unknown[][];
}

const at = (values: Values | undefined, place: number): unknown => values?.[place] ?? null;

interface Column {
  name: string;
  places: Values | undefined;
  values: Values | undefined;
}

// What candlesticks and bars of prices have in place of one value.
const PRICES = ["open", "high", "low", "close"] as const;

function columnsOf(trace: Trace, place: number): Column[] {
  const name = trace.name || `series ${place + 1}`;
  const places = trace.labels ?? trace.x;
  const prices = PRICES.flatMap((price) => (trace[price] ? [{ name: `${name} ${price}`, places, values: trace[price] }] : []));
  return prices.length ? prices : [{ name, places, values: trace.values ?? trace.y ?? trace.z }];
}

// The traces as plotly has read them, with all of their points where fewer are drawn.
export const completed = (drawn: Trace[], whole: Trace[] | undefined): Trace[] =>
  (whole ? drawn.map((trace, place) => ({ ...trace, x: whole[place]?.x ?? trace.x, y: whole[place]?.y ?? trace.y })) : drawn);

// One row per place on the common axis, one column per trace and four per trace of prices; of shares a row per name.
export function gridOf(traces: Trace[], axis: string): Grid {
  const columns = traces.flatMap(columnsOf);
  const rows = new Map<string, unknown[]>();
  columns.forEach(({ places, values }, column) => {
    const length = Math.max(places?.length ?? 0, values?.length ?? 0);
    for (let place = 0; place < length; place += 1) {
      const key = places ? at(places, place) : place;
      const row = rows.get(String(key)) ?? [key, ...columns.map(() => null)];
      row[column + 1] = at(values, place);
      rows.set(String(key), row);
    }
  });
  return { header: [axis, ...columns.map(({ name }) => name)], rows: [...rows.values()] };
}
