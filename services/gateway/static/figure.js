// Plotly figures. The bundle is loaded when the first figure is shown, from this server.
import { call, path } from "/static/api.js";
import { el } from "/static/dom.js";
import { word } from "/static/words.js";

const loading = { script: null };

function plotly() {
  loading.script ??= new Promise((resolve, reject) => {
    const failed = () => {
      loading.script = null;
      reject(new Error(word("noDrawing")));
    };
    const ready = () => resolve(globalThis.Plotly);
    document.head.append(el("script", { src: "/static/plotly.min.js", onload: ready, onerror: failed }));
  });
  return loading.script;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// WebGL traces become SVG ones: sharp, printable, and drawn on machines without a graphics card as well.
const svg = (trace) => (trace.type?.endsWith("gl") ? { ...trace, type: trace.type.slice(0, -2) } : trace);

// The page's colours over the figure's own layout; the title stands in the caption.
function themed(layout, dated) {
  const ink = css("--ink");
  const line = css("--line");
  const axes = Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key));
  const axis = (key) => [key, {
    hoverformat: key.startsWith("y") ? ",.6~g" : dated ? "%Y-%m-%d" : undefined, ...layout[key],
    gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true,
    title: { ...asTitle(layout[key]?.title), font: { size: 12 }, standoff: 8 },
  }];
  return {
    ...layout, ...Object.fromEntries([...new Set(["xaxis", "yaxis", ...axes])].map(axis)),
    title: undefined, autosize: true, width: undefined, height: undefined,
    paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { ...layout.font, color: ink, family: css("--font"), size: 12 },
    margin: { l: 48, r: 14, t: 38, b: 36 },
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

function recoloured(trace) {
  const colours = css("--series").split(/\s+/);
  const index = DEFAULTS.indexOf(trace.line?.color?.toLowerCase?.());
  if (index < 0) return trace;
  return { ...trace, line: { width: 1.6, ...trace.line, color: colours[index % colours.length] } };
}

// Plotly express repeats "variable=…<br>date=…" for each line; the common hover card says both once.
const GENERATED = /^[^%]*%\{x\}[^%]*%\{y\}<extra><\/extra>$/;
const isGenerated = (trace) => trace.type === "scatter" && GENERATED.test(trace.hovertemplate ?? "");
const brief = (trace) => (isGenerated(trace) ? { ...trace, hovertemplate: undefined } : trace);

const asTitle = (title) => (typeof title === "string" ? { text: title } : title ?? {});

export function figureOf(runId, figure, onCode) {
  const place = el("div", { class: "plot" }, el("span", { class: "dim" }, word("drawing")));
  const title = el("strong", {}, figure.title);
  const root = el("figure", { class: "plotly-figure", data: { figure: figure.id } },
    el("figcaption", {}, el("span", { class: "tag" }, figure.id), title, el("span", { class: "spacer" }),
      el("button", { type: "button", class: "quiet", onclick: onCode }, word("showCode"))),
    place);
  draw(runId, figure, place, title).catch((error) => {
    place.classList.add("broken");
    place.replaceChildren(el("span", { class: "chip bad" }, `${figure.id}: ${error.message}`));
  });
  return root;
}

// In the place of a figure whose code failed: what went wrong, and the way to its record.
export function brokenFigure(item, onCode) {
  const reason = item.code.traceback.trim().split("\n").at(-1) ?? "";
  return el("div", { class: "gaps broken-figure", role: "alert" },
    el("span", { class: "chip bad" }, `${word("noDrawing")}: ${reason}`),
    el("button", { type: "button", class: "quiet", onclick: onCode }, word("showCode")));
}

async function draw(runId, figure, place, title) {
  const [library, content] = await Promise.all([plotly(), call(path("runs", runId, "figures", figure.id))]);
  const layout = content.layout ?? {};
  title.textContent ||= asTitle(layout.title).text ?? "";
  const shared = !layout.hovermode;
  const traces = (content.data ?? []).map(svg).map((trace) => (shared ? brief(trace) : trace));
  const dated = traces.some((trace) => /^\d{4}-\d\d-\d\d/.test(trace.x?.[0]));
  const names = traces.map((trace) => trace.name).filter(Boolean).join(", ");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", [title.textContent, names].filter(Boolean).join(": "));
  place.replaceChildren();
  const config = { displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "" };
  const paint = () => library.react(place, traces.map(recoloured), themed(layout, dated), config);
  await paint();
  const repaint = () => (place.isConnected ? paint() : document.removeEventListener("fathom:theme", repaint));
  document.addEventListener("fathom:theme", repaint);
  new ResizeObserver(() => place.isConnected && library.Plots.resize(place)).observe(place);
}
