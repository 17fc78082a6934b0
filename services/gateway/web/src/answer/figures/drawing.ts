// How the page draws a figure: its own layout and traces, in the page's colours, type and number formats.
import { word } from "../../base/words";
import type { Layout, Place, Stroke, Title, Trace, Values } from "./plotly";

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// WebGL traces become SVG ones: sharp, printable, and drawn on machines without a graphics card as well.
export const asSvg = (trace: Trace): Trace => (trace.type?.endsWith("gl") ? { ...trace, type: trace.type.slice(0, -2) } : trace);

export const asTitle = (title: Title | undefined): { text?: string } => (typeof title === "string" ? { text: title } : title ?? {});
export const isAxis = (key: string): key is keyof Layout & ("xaxis" | "yaxis") => /^[xy]axis\d*$/.test(key);

// From some quarters of a year on, a reader wants a part of a series of days.
const ranges = (): object[] => [
  { label: word("range_6m"), count: 6, step: "month", stepmode: "backward" }, { label: word("range_1y"), count: 1, step: "year", stepmode: "backward" },
  { label: word("range_3y"), count: 3, step: "year", stepmode: "backward" }, { label: word("range_all"), step: "all" },
];
const RANGE_DAYS = 500;
const BOTTOM_PX = 36;

export interface Look {
  isDated: boolean;
  hasLegend: boolean;
  hasRanges: boolean;
  // Of the whole figure, and the rows of names that the ranges stand above; 0 where they stand beside.
  heightPx: number;
  rows: number;
}

// The page's colours over the figure's own layout; the title stands in the caption.
export function themed(layout: Layout, { isDated, hasLegend, hasRanges, heightPx, rows }: Look): object {
  // Where names and ranges have no room beside each other, they stand one above the other.
  // With some room, since the labels below may take more than they are given.
  const namesPx = hasLegend && hasRanges && rows ? ROW_PX * rows + 8 : 0;
  const top = hasLegend || hasRanges ? 38 + namesPx : 16;
  const rangesAt = 1.02 + namesPx / (heightPx - top - BOTTOM_PX);
  const ink = css("--ink");
  const line = css("--line");
  const axes = Object.keys(layout).filter(isAxis);
  const axis = (key: "xaxis" | "yaxis"): [string, object] => [key, {
    hoverformat: key.startsWith("y") ? ",.6~g" : isDated ? "%Y-%m-%d" : undefined,
    // 12,000 and not 12k; from a million on, 1.2M and 3B.
    ...(key.startsWith("y") && { separatethousands: true, minexponent: 6, exponentformat: "B" }),
    // On a log axis 2 and 5 alone would stand for 0.2, 20 and 2,000 as well.
    ...(layout[key]?.type === "log" && { tickformat: ",.3~r" }), ...layout[key],
    ...(key === "xaxis" && hasRanges && { rangeselector: { buttons: ranges(), ...rangeColours(), x: 1, xanchor: "right", y: rangesAt, yanchor: "bottom" } }),
    gridcolor: line, zerolinecolor: css("--strong-line"), linecolor: line, automargin: true,
    title: { ...asTitle(layout[key]?.title), font: { size: 12 }, standoff: 8 },
  }];
  return {
    ...layout, ...Object.fromEntries([...new Set<"xaxis" | "yaxis">(["xaxis", "yaxis", ...axes])].map(axis)),
    // The reader's zoom outlasts a change of theme.
    title: undefined, autosize: true, width: undefined, height: undefined, uirevision: layout.uirevision ?? "same",
    paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { ...layout.font, color: ink, family: css("--font"), size: 12 },
    margin: { l: 48, r: 14, t: top, b: BOTTOM_PX },
    legend: {
      ...layout.legend, orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", title: { text: "" },
      bgcolor: "transparent",
    },
    modebar: { bgcolor: "transparent", color: css("--dim"), activecolor: css("--accent") },
    hovermode: layout.hovermode ?? "x unified",
    hoverlabel: { bgcolor: css("--raised"), bordercolor: line, font: { color: ink } },
    colorway: layout.colorway ?? css("--series").split(/\s+/),
  };
}

const rangeColours = (): object => ({
  bgcolor: css("--soft"), activecolor: css("--accent-soft"), bordercolor: css("--line"), borderwidth: 1, font: { size: 11, color: css("--ink") },
});

// Traces that carry plotly's default colours take the page's, which are legible on both backgrounds.
const DEFAULTS = ["#636efa", "#ef553b", "#00cc96", "#ab63fa", "#ffa15a", "#19d3f3", "#ff6692", "#b6e880"];

// Charts that colour rises and falls in the colours that the reader prefers.
const MOVING = new Set<string | undefined>(["candlestick", "ohlc", "waterfall"]);
const RED = "#d33";
const GREEN = "#2a9d4a";
function directed(): Trace {
  const [up, down] = document.documentElement.dataset.rise === "red_up" ? [RED, GREEN] : [GREEN, RED];
  return Object.fromEntries([["increasing", up], ["decreasing", down]].map(([name, color]) =>
    [name, { line: { color }, marker: { color } }]));
}

// A trace with a default colour in the page's; of more traces than colours the later ones have another stroke.
export function recoloured(trace: Trace): Trace {
  const colours = css("--series").split(/\s+/);
  const paint = (part: Stroke): Stroke => {
    const index = typeof part.color === "string" ? DEFAULTS.indexOf(part.color.toLowerCase()) : -1;
    if (index < 0) return part;
    return { ...part, color: colours[index % colours.length], ...(index >= colours.length && part === trace.line && { dash: "dash" }) };
  };
  const moved = MOVING.has(trace.type) ? directed() : {};
  return { ...moved, ...trace, ...(trace.line && { line: { width: 1.6, ...paint(trace.line) } }), ...(trace.marker && { marker: paint(trace.marker) }) };
}

// Plotly express repeats "variable=…<br>date=…" for each line; the common hover card says both once.
const GENERATED = /^[^%]*%\{x\}[^%]*%\{y\}<extra><\/extra>$/;
const isGenerated = (trace: Trace): boolean => trace.type === "scatter" && GENERATED.test(trace.hovertemplate ?? "");
export const brief = (trace: Trace): Trace => (isGenerated(trace) ? { ...trace, hovertemplate: undefined } : trace);

// Pixels of a panel, and of what a second panel and a fifth line's legend add.
const PANEL_PX = 340;
const MORE_PX = 150;
const LEGEND_PX = 22;
const LEGEND_ENTRIES = 4;
// Of a bar that lies, beside its name, and of the axis and the margins of such a chart.
const BAR_PX = 24;
const FRAME_PX = 120;

// Subplots one above the other share a height in which each of them would be a strip.
export function heightOf(layout: Layout, traces: Trace[]): number {
  const panels = Object.keys(layout).filter((key) => isAxis(key) && key.startsWith("y")) as "yaxis"[];
  const starts = panels.map((key) => layout[key]?.domain?.[0] ?? 0);
  const rows = Math.ceil(traces.filter((trace) => trace.name && trace.showlegend !== false).length / LEGEND_ENTRIES);
  const panel = PANEL_PX + MORE_PX * (Math.max(1, new Set(starts).size) - 1) + LEGEND_PX * Math.max(0, rows - 1);
  const bars = Math.max(0, ...traces.filter((trace) => trace.orientation === "h").map((trace) => trace.y?.length ?? 0));
  return Math.max(panel, bars && FRAME_PX + BAR_PX * bars);
}

// About the pixels of a legend: a stroke, a gap and the letters of each name; what the ranges take beside it; a row.
const STROKE_PX = 46;
const LETTER_PX = 7;
const RANGES_PX = 220;
const SIDES_PX = 80;
const ROW_PX = 24;

// The rows of the names where the ranges have no room beside them, else 0.
export function countRows(traces: Trace[], widthPx: number): number {
  const names = traces.filter((trace) => trace.showlegend !== false).map((trace) => STROKE_PX + LETTER_PX * (trace.name ?? "").length);
  const whole = names.reduce((sum, width) => sum + width, 0);
  if (whole + RANGES_PX <= widthPx) return 0;
  // Plotly gives each name the room of the longest.
  const columns = Math.max(1, Math.floor((widthPx - SIDES_PX) / Math.max(...names)));
  return whole <= widthPx - SIDES_PX ? 1 : Math.ceil(names.length / columns);
}

const valuesOf = (place: Place): Values[] => (place._fullData ?? []).map((trace) => trace.z ?? trace.values ?? trace.y ?? trace.x ?? []);
export const hasPoints = (place: Place): boolean => valuesOf(place).some((values) => values.length);

// Whether a log scale shows more: lines in one panel, all above 0, the largest ten times the smallest.
export function isSteep(place: Place, layout: Layout): boolean {
  const lines = place._fullData ?? [];
  if (!lines.length || layout.yaxis2 || layout.yaxis?.type || lines.some((trace) => trace.type !== "scatter" || trace.mode === "markers")) return false;
  const numbers = lines.flatMap((trace) => Array.from(trace.y ?? [])).filter((value): value is number => typeof value === "number" && !Number.isNaN(value));
  const [low, high] = numbers.reduce<[number, number]>(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  return low > 0 && high / low >= 10;
}

// Whether a part of the days is worth choosing: one panel of lines over many days, without ranges of its own.
export function isLong(traces: Trace[], layout: Layout, isDated: boolean): boolean {
  return isDated && !layout.xaxis2 && !layout.xaxis?.rangeselector && traces.some((trace) => (trace.x?.length ?? 0) >= RANGE_DAYS);
}
