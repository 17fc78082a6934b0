// Plotly, loaded when the first figure is shown: the bundle for lines, bars, shares and prices, and the whole library,
// which the gateway has with its package, for figures that have traces of other types.
import { word } from "../../base/words";

// What of Plotly's own forms this page reads.
export type Values = ArrayLike<unknown>;
export interface Stroke {
  color?: unknown;
  width?: number;
  dash?: string;
}
export interface Trace {
  type?: string;
  mode?: string;
  orientation?: "h" | "v";
  name?: string;
  showlegend?: boolean;
  hovertemplate?: string;
  line?: Stroke;
  marker?: Stroke;
  x?: Values;
  y?: Values;
  z?: Values;
  values?: Values;
  labels?: Values;
  open?: Values;
  high?: Values;
  low?: Values;
  close?: Values;
}
export type Title = string | { text?: string };
export interface Axis {
  type?: string;
  title?: Title;
  domain?: number[];
  rangeselector?: object;
}
export interface Layout {
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
export interface Drawing {
  data?: Trace[];
  layout?: Layout;
}
// Plotly keeps the traces as it has read them with their place: packed numbers are arrays there.
export interface Place extends HTMLDivElement {
  data?: Trace[];
  layout?: Layout;
  _fullData?: Trace[];
}
export interface Picture {
  format: "png" | "svg";
  width: number;
  height: number;
}
export interface Plotly {
  react(place: Place, traces: Trace[], layout: object, config: object): Promise<unknown>;
  purge(place: Place): void;
  toImage(drawing: Place | { data: object[]; layout: object }, options: Picture): Promise<string>;
  Plots: { resize(place: Place): void };
}

const SMALL_BUNDLE = new Set(["scatter", "bar", "histogram", "pie", "candlestick", "ohlc", "funnel", "funnelarea", "waterfall", "indicator"]);

const loading: { small: Promise<Plotly> | null; whole: Promise<Plotly> | null } = { small: null, whole: null };

function loadWhole(): Promise<Plotly> {
  return new Promise<Plotly>((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "static/plotly.min.js";
    script.onload = () => resolve((globalThis as unknown as { Plotly: Plotly }).Plotly);
    script.onerror = () => reject(new Error(word("noDrawing")));
    document.head.append(script);
  });
}

// A failed load is tried again by the next figure.
export async function plotlyFor(traces: Trace[]): Promise<Plotly> {
  const name = traces.every(({ type = "scatter" }) => SMALL_BUNDLE.has(type)) ? "small" : "whole";
  loading[name] ??= name === "whole" ? loadWhole() : import("plotly.js-finance-dist-min").then((module) => module.default);
  try {
    return await loading[name];
  } catch {
    loading[name] = null;
    throw new Error(word("noDrawing"));
  }
}
