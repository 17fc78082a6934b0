// Fewer points of long lines and clouds, so that a figure stays quick to draw and to move: its shape stays, and what is saved or
// read as values is whole. Loaded with the first figure. Pure: tested under Node.
import type { Trace, Values } from "./plotly";

// Beyond it a drawing in SVG holds up the page, and a screen has no more columns of pixels to show.
export const MOST_POINTS = 5_000;
// So many stand for a trace however many others there are.
const FEWEST = 8;

export interface Thinned {
  // What is drawn.
  traces: Trace[];
  // The same with all points, numbers unpacked.
  whole: Trace[];
  shown: number;
  all: number;
}

// Numbers as plotly's own writers pack them: an array of little-endian values in base64.
interface Packed {
  dtype: string;
  bdata: string;
  shape?: unknown;
}
const ARRAYS = {
  i1: Int8Array, u1: Uint8Array, u1c: Uint8ClampedArray, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array,
};
type Members = Record<string, unknown>;
// Parts of a trace that may have a value for each point.
const PARTS = ["marker", "line", "error_x", "error_y"];

const isPacked = (value: unknown): value is Packed => typeof value === "object" && value !== null && "bdata" in value && "dtype" in value;
const isArray = (value: unknown): value is Values => Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));

function unpack(value: unknown): unknown {
  if (!isPacked(value) || value.shape !== undefined || !(value.dtype in ARRAYS)) return value;
  const bytes = Uint8Array.from(atob(value.bdata), (letter) => letter.charCodeAt(0));
  return new ARRAYS[value.dtype as keyof typeof ARRAYS](bytes.buffer);
}

// The trace with each of its values changed, those of its parts too.
function changed(trace: Trace, change: (value: unknown) => unknown): Trace {
  const members = Object.entries(trace).map(([name, value]) => {
    const isPart = PARTS.includes(name) && typeof value === "object" && value !== null;
    return [name, isPart ? Object.fromEntries(Object.entries(value as Members).map(([key, one]) => [key, change(one)])) : change(value)];
  });
  return Object.fromEntries(members) as Trace;
}

const sizeOf = (trace: Trace): number => trace.y?.length ?? 0;

// A stack adds lines up point by point, and would have gaps where they have different ones.
const isThinnable = (trace: Trace): boolean => (trace.type ?? "scatter") === "scatter" && !("stackgroup" in trace)
  && isArray(trace.x) && isArray(trace.y) && trace.x.length === trace.y.length;

export function thin(traces: Trace[]): Thinned | null {
  const whole = traces.map((trace) => ((trace.type ?? "scatter") === "scatter" ? changed(trace, unpack) : trace));
  const all = whole.filter(isThinnable).reduce((sum, trace) => sum + sizeOf(trace), 0);
  if (all <= MOST_POINTS) return null;
  let shown = 0;
  const drawn = whole.map((trace) => {
    if (!isThinnable(trace)) return trace;
    const size = sizeOf(trace);
    const places = choose(trace, Math.max(FEWEST, Math.floor((MOST_POINTS * size) / all)));
    shown += places.length;
    return changed(trace, (value) => (isArray(value) && value.length === size ? places.map((place) => value[place]) : value));
  });
  return { traces: drawn, whole, shown, all };
}

// The places of a trace that are drawn, at most `most`: of a line the lowest, the highest and a gap of each stretch, of a
// cloud every so many.
function choose(trace: Trace, most: number): number[] {
  const size = sizeOf(trace);
  if (size <= most) return Array.from({ length: size }, (_, place) => place);
  const isLine = (trace.mode ?? "lines").includes("lines");
  if (!isLine) return Array.from({ length: most }, (_, number) => Math.floor((number * size) / most));
  const stretches = Math.floor((most - 2) / 3);
  const places = new Set([0, size - 1]);
  for (let stretch = 0; stretch < stretches; stretch += 1) {
    for (const place of marksOf(trace.y!, Math.floor((stretch * size) / stretches), Math.floor(((stretch + 1) * size) / stretches))) places.add(place);
  }
  return [...places].sort((a, b) => a - b);
}

// The lowest, the highest and the first missing value between two places.
function marksOf(values: Values, start: number, end: number): number[] {
  let [low, high, gap] = [-1, -1, -1];
  for (let place = start; place < end; place += 1) {
    const value = values[place];
    if (typeof value !== "number" || !Number.isFinite(value)) gap = gap < 0 ? place : gap;
    else {
      if (low < 0 || value < (values[low] as number)) low = place;
      if (high < 0 || value > (values[high] as number)) high = place;
    }
  }
  return [low, high, gap].filter((place) => place >= 0);
}
