// Figures: plotly's, pictures, and HTML. Plotly's bundle is loaded when its first figure is shown, from this server.
import { call, path } from "../base/api";
import { el } from "../base/dom";
import type { FigureRef } from "../contract/types";
import type { CodeItem } from "../run/rows";
import { word } from "../base/words";

// What of Plotly's own forms this module reads.
type Values = ArrayLike<unknown>;
interface Stroke {
  color?: unknown;
  width?: number;
  dash?: string;
}
interface Trace {
  type?: string;
  mode?: string;
  name?: string;
  showlegend?: boolean;
  hovertemplate?: string;
  line?: Stroke;
  marker?: Stroke;
  x?: Values;
  y?: Values;
  z?: Values;
  values?: Values;
}
type Title = string | { text?: string };
interface Axis {
  type?: string;
  title?: Title;
  domain?: number[];
}
interface Layout {
  [axis: `${"x" | "y"}axis${number}`]: Axis | undefined;
  xaxis?: Axis;
  yaxis?: Axis;
  title?: Title;
  font?: object;
  legend?: object;
  hovermode?: string;
  colorway?: string[];
  uirevision?: string;
  meta?: { note?: string; log?: boolean };
}
interface Drawing {
  data?: Trace[];
  layout?: Layout;
}
// Plotly keeps the traces as it has read them with their place: packed numbers are arrays there.
type Place = HTMLElement & { _fullData?: Trace[] };
interface Plotly {
  react(place: Place, traces: Trace[], layout: object, config: object): Promise<unknown>;
  purge(place: Place): void;
  Plots: { resize(place: Place): void };
}

const loading: { script: Promise<Plotly> | null } = { script: null };

function plotly(): Promise<Plotly> {
  loading.script ??= new Promise<Plotly>((resolve, reject) => {
    const failed = (): void => {
      loading.script = null;
      reject(new Error(word("noDrawing")));
    };
    const ready = (): void => resolve((globalThis as unknown as { Plotly: Plotly }).Plotly);
    document.head.append(el("script", { src: "static/plotly.min.js", onload: ready, onerror: failed }));
  });
  return loading.script;
}

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// WebGL traces become SVG ones: sharp, printable, and drawn on machines without a graphics card as well.
const svg = (trace: Trace): Trace => (trace.type?.endsWith("gl") ? { ...trace, type: trace.type.slice(0, -2) } : trace);

// The page's colours over the figure's own layout; the title stands in the caption.
const isAxis = (key: string): key is keyof Layout & ("xaxis" | "yaxis") => /^[xy]axis\d*$/.test(key);

function themed(layout: Layout, dated: boolean, legend: boolean): object {
  const ink = css("--ink");
  const line = css("--line");
  const axes = Object.keys(layout).filter(isAxis);
  const axis = (key: "xaxis" | "yaxis"): [string, object] => [key, {
    hoverformat: key.startsWith("y") ? ",.6~g" : dated ? "%Y-%m-%d" : undefined,
    // 12,000 and not 12k; from a million on, 1.2M and 3B.
    ...(key.startsWith("y") && { separatethousands: true, minexponent: 6, exponentformat: "B" }),
    // On a log axis 2 and 5 alone would stand for 0.2, 20 and 2,000 as well.
    ...(layout[key]?.type === "log" && { tickformat: ",.3~r" }), ...layout[key],
    gridcolor: line, zerolinecolor: css("--strong-line"), linecolor: line, automargin: true,
    title: { ...asTitle(layout[key]?.title), font: { size: 12 }, standoff: 8 },
  }];
  return {
    ...layout, ...Object.fromEntries([...new Set<"xaxis" | "yaxis">(["xaxis", "yaxis", ...axes])].map(axis)),
    // The reader's zoom outlasts a change of theme.
    title: undefined, autosize: true, width: undefined, height: undefined, uirevision: layout.uirevision ?? "same",
    paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { ...layout.font, color: ink, family: css("--font"), size: 12 },
    margin: { l: 48, r: 14, t: legend ? 38 : 16, b: 36 },
    legend: {
      ...layout.legend, orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", title: { text: "" },
      bgcolor: "transparent",
    },
    modebar: { bgcolor: "transparent", color: css("--strong-line"), activecolor: css("--accent") },
    hovermode: layout.hovermode ?? "x unified",
    hoverlabel: { bgcolor: css("--raised"), bordercolor: line, font: { color: ink } },
    colorway: layout.colorway ?? css("--series").split(/\s+/),
  };
}

// Traces that carry plotly's default colours take the page's, which are legible on both backgrounds.
const DEFAULTS = ["#636efa", "#ef553b", "#00cc96", "#ab63fa", "#ffa15a", "#19d3f3", "#ff6692", "#b6e880"];

// Charts that colour rises and falls in the colours that the reader prefers.
const MOVING = new Set<string | undefined>(["candlestick", "ohlc", "waterfall"]);
function directed(): Trace {
  const rise = document.documentElement.dataset.rise;
  if (!rise) return {};
  const [up, down] = rise === "red_up" ? ["#d33", "#2a9d4a"] : ["#2a9d4a", "#d33"];
  return Object.fromEntries([["increasing", up], ["decreasing", down]].map(([name, color]) =>
    [name, { line: { color }, marker: { color } }]));
}

// A trace with a default colour in the page's; of more traces than colours the later ones have another stroke.
function recoloured(trace: Trace): Trace {
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
const brief = (trace: Trace): Trace => (isGenerated(trace) ? { ...trace, hovertemplate: undefined } : trace);

const asTitle = (title: Title | undefined): { text?: string } => (typeof title === "string" ? { text: title } : title ?? {});

// `sources` is where the data come from, for the line below the chart.
export function figureOf(runId: string, figure: FigureRef, sources: string, onCode: () => void): HTMLElement {
  const place = el("div", { class: "plot" }, el("span", { class: "dim" }, word("drawing")));
  const title = el("strong", {}, figure.title);
  const log = el("button", { type: "button", class: "quiet log", hidden: true, "aria-pressed": "false" }, word("logScale"));
  const note = el("div", { class: "foot note", hidden: true });
  const root = el("figure", { class: "plotly-figure", data: { figure: figure.id } },
    el("figcaption", {}, el("span", { class: "tag" }, figure.id), title, el("span", { class: "spacer" }), log,
      el("button", { type: "button", class: "quiet", onclick: onCode }, word("showCode"))),
    place, note);
  const show = DRAWN.has(figure.ref?.content_type ?? "") ? draw : frame;
  show(runId, figure, { place, title, log, note, sources }).catch((error: Error) => {
    place.classList.add("broken");
    place.style.height = "";
    place.replaceChildren(el("span", { class: "chip bad" }, `${figure.id}: ${error.message}`));
  });
  return root;
}

// Stored as plotly's JSON; a record from before has no type.
const DRAWN = new Set(["", "application/json"]);

// A picture, or cleaned HTML in a frame without any right: neither can act here.
async function frame(runId: string, figure: FigureRef, { place, title, note, sources }: Parts): Promise<void> {
  const type = figure.ref?.content_type;
  const src = path("runs", runId, "figures", figure.id);
  const name = title.textContent || figure.id;
  const shown: HTMLElement = type === "text/html" ? el("iframe", { src, title: name, sandbox: "", class: "shown-html" })
    : el("img", { src, alt: name, class: "shown-picture", onerror: () => shown.replaceWith(el("span", { class: "chip bad" }, word("noDrawing"))) });
  place.replaceChildren(shown);
  note.textContent = sources;
  note.hidden = !sources;
}

// In the place of a figure whose code failed: what went wrong, and the way to its record.
export function brokenFigure(item: CodeItem, onCode: () => void): HTMLElement {
  const reason = item.code.traceback.trim().split("\n").at(-1) ?? "";
  return el("div", { class: "gaps broken-figure", role: "alert" },
    el("span", { class: "chip bad" }, `${word("noDrawing")}: ${reason}`),
    el("button", { type: "button", class: "quiet", onclick: onCode }, word("showCode")));
}

// Pixels of a panel, and of what a second panel and a fifth line's legend add.
const PANEL_PX = 340;
const MORE_PX = 150;
const LEGEND_PX = 22;
const LEGEND_ENTRIES = 4;

// Subplots one above the other share a height in which each of them would be a strip.
function heightOf(layout: Layout, traces: Trace[]): number {
  const panels = Object.keys(layout).filter((key) => isAxis(key) && key.startsWith("y")) as "yaxis"[];
  const starts = panels.map((key) => layout[key]?.domain?.[0] ?? 0);
  const rows = Math.ceil(traces.filter((trace) => trace.name && trace.showlegend !== false).length / LEGEND_ENTRIES);
  return PANEL_PX + MORE_PX * (Math.max(1, new Set(starts).size) - 1) + LEGEND_PX * Math.max(0, rows - 1);
}

const valuesOf = (place: Place): Values[] => (place._fullData ?? []).map((trace) => trace.z ?? trace.values ?? trace.y ?? trace.x ?? []);

// Whether a log scale shows more: lines in one panel, all above 0, the largest ten times the smallest.
function isSteep(place: Place, layout: Layout): boolean {
  const lines = place._fullData ?? [];
  if (!lines.length || layout.yaxis2 || layout.yaxis?.type || lines.some((trace) => trace.type !== "scatter" || trace.mode === "markers")) return false;
  const numbers = lines.flatMap((trace) => Array.from(trace.y ?? [])).filter((value): value is number => typeof value === "number" && !Number.isNaN(value));
  const [low, high] = numbers.reduce<[number, number]>(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  return low > 0 && high / low >= 10;
}

interface Parts {
  place: Place;
  title: HTMLElement;
  log: HTMLButtonElement;
  note: HTMLElement;
  sources: string;
}

async function draw(runId: string, figure: FigureRef, { place, title, log, note, sources }: Parts): Promise<void> {
  const [library, content] = await Promise.all([plotly(), call<Drawing>(path("runs", runId, "figures", figure.id))]);
  const layout = content.layout ?? {};
  title.textContent ||= asTitle(layout.title).text ?? "";
  note.textContent = [layout.meta?.note, sources].filter(Boolean).join(" · ");
  note.hidden = !note.textContent;
  const shared = !layout.hovermode;
  const traces = (content.data ?? []).map(svg).map((trace) => (shared ? brief(trace) : trace));
  const dated = traces.some((trace) => /^\d{4}-\d\d-\d\d/.test(String(trace.x?.[0])));
  const names = traces.map((trace) => trace.name).filter(Boolean).join(", ");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", [title.textContent, names, note.textContent].filter(Boolean).join(": "));
  place.replaceChildren();
  place.style.height = `${heightOf(layout, traces)}px`;
  const config = { displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "" };
  const scaled = (): Layout => (log.ariaPressed === "true" ? { ...layout, yaxis: { ...layout.yaxis, type: "log" } } : layout);
  const legend = traces.length > 1 || traces[0]?.type === "pie";
  const paint = (): Promise<unknown> => library.react(place, traces.map(recoloured), themed(scaled(), dated, legend), config);
  await paint();
  if (!valuesOf(place).some((values) => values.length)) {
    library.purge(place);
    throw new Error(word("noPoints"));
  }
  log.hidden = layout.meta?.log === false || !isSteep(place, layout);
  log.addEventListener("click", () => {
    log.ariaPressed = String(log.ariaPressed !== "true");
    void paint();
  });
  const repaint = (): unknown => (place.isConnected ? paint() : document.removeEventListener("fathom:theme", repaint));
  document.addEventListener("fathom:theme", repaint);
  new ResizeObserver(() => place.isConnected && library.Plots.resize(place)).observe(place);
}
