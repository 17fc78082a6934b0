// The values behind a figure as rows for a spreadsheet. Pure: tested under Node.
import type { Trace, Values } from "./plotly";

export interface Grid {
  header: string[];
  rows: unknown[][];
}

const at = (values: Values | undefined, place: number): unknown => values?.[place] ?? null;

// One row per place on the common axis, one column per trace; of shares a row per name.
export function gridOf(traces: Trace[], axis: string): Grid {
  const named = traces.map((trace, place) => trace.name || `series ${place + 1}`);
  const rows = new Map<string, unknown[]>();
  traces.forEach((trace, column) => {
    const places = trace.labels ?? trace.x;
    const values = trace.values ?? trace.y ?? trace.z;
    const length = Math.max(places?.length ?? 0, values?.length ?? 0);
    for (let place = 0; place < length; place += 1) {
      const key = places ? at(places, place) : place;
      const row = rows.get(String(key)) ?? [key, ...traces.map(() => null)];
      row[column + 1] = at(values, place);
      rows.set(String(key), row);
    }
  });
  return { header: [axis, ...named], rows: [...rows.values()] };
}
