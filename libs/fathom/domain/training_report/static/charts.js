// Traces and layouts for plotly from reduced curves.
import { cssColour, seriesColours, short } from "./dom.js";

const DASHES = ["solid", "dash", "dot", "dashdot"];

// Exponential moving average without the pull of its start.
export function smooth(values, weight) {
  if (!weight) return values;
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    sum = sum * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    return sum / mass;
  });
}

// The value of a monotone series at a step, by linear interpolation.
export function lookUp(steps, values, step) {
  let low = 0;
  let high = steps.length - 1;
  if (step <= steps[low]) return values[low];
  if (step >= steps[high]) return values[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step) low = middle; else high = middle;
  }
  const share = (step - steps[low]) / (steps[high] - steps[low]);
  return values[low] + share * (values[high] - values[low]);
}

export const stepsOf = (curves, series) => curves.steps[series.x];

// Positions on the chosen axis: steps, hours since the start, or tokens trained on.
export function positions(curves, steps, axis) {
  const other = axis === "hours" ? curves.series.time : axis === "tokens" ? curves.series.tokens : null;
  if (!other) return steps;
  const known = stepsOf(curves, other);
  const values = steps.map((step) => lookUp(known, other.y, step));
  return axis === "hours" ? values.map((value) => (value - other.y[0]) / 3600) : values;
}

const rgba = (hex, share) => `rgba(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join(",")},${share})`;
const positive = (values, log) => (log ? values.map((value) => (value > 0 ? value : null)) : values);

// The bands of a family, each {low, high, share} with the strength of its colour: from the least to the most, or a
// deviation on either side; within it from the tenth to the ninetieth percentile. Of several seeds that of the seeds alone.
function findBands(curves, family) {
  const mean = curves.series[family.mean];
  const own = { low: mean.lo, high: mean.hi, share: 0.2 };
  if (curves.merged) return mean.lo ? [own] : [];
  // A series of other steps cannot be an edge of this one.
  const part = (name) => (curves.series[name]?.x === mean.x ? curves.series[name] : null);
  const [low, high, spread, p10, p90] = ["low", "high", "spread", "p10", "p90"].map((name) => part(family[name]));
  const bands = [];
  if (low || high) {
    // Also those of the mean itself: where points stand for several steps, its spike is outside of the others' band.
    const edge = (series, reduced, choose) => ((series ?? mean)[reduced] ?? (series ?? mean).y).map((y, at) => choose(y, (mean[reduced] ?? mean.y)[at]));
    bands.push({ low: edge(low, "lo", Math.min), high: edge(high, "hi", Math.max), share: 0.1 });
  } else if (spread && !(p10 && p90)) {
    bands.push({ low: mean.y.map((y, at) => y - spread.y[at]), high: mean.y.map((y, at) => y + spread.y[at]), share: 0.16 });
  } else if (mean.lo) {
    bands.push({ ...own, share: 0.1 });
  }
  if (p10 && p90) bands.push({ low: p10.y, high: p90.y, share: 0.2 });
  return bands;
}

// What a point says beside its value, by the family's quantiles or by those of the seeds.
function describePoints(curves, family) {
  const mean = curves.series[family.mean];
  const [median, p10, p90] = ["median", "p10", "p90"].map((name) => curves.series[family[name]]).map((series) => (series?.x === mean.x ? series : null));
  return stepsOf(curves, mean).map((step, at) => {
    if (curves.merged) return ` median of ${mean.count[at]}, ${short(mean.lo[at])} to ${short(mean.hi[at])} · step ${step}`;
    const quantiles = median && p10 && p90 ? ` mean, ${short(median.y[at])} median, 80% ${short(p10.y[at])} to ${short(p90.y[at])}` : "";
    return `${quantiles} · step ${step}`;
  });
}

// The traces of one chart: a colour for each run, or for each family when there is one run.
export function drawTraces(panel, runs, options) {
  const traces = [];
  const colours = seriesColours();
  for (const run of runs) {
    panel.families.forEach((family, place) => {
      const curves = run.curves;
      const series = curves.series[family.mean];
      if (!series) return;
      const colour = runs.length > 1 ? run.colour : colours[place % colours.length];
      const name = runs.length > 1 ? `${run.name}${panel.families.length > 1 ? ` ${family.name}` : ""}` : family.name;
      const group = `${run.name} ${family.name}`;
      for (const band of options.bands ? findBands(curves, family) : []) {
        const x = positions(curves, stepsOf(curves, series), options.axis);
        const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: group };
        traces.push({ ...edge, y: positive(band.low, panel.log) });
        traces.push({ ...edge, y: positive(band.high, panel.log), fill: "tonexty", fillcolor: rgba(colour, band.share) });
      }
      const steps = stepsOf(curves, series);
      const x = positions(curves, steps, options.axis);
      const line = { color: colour, width: 1.8, dash: runs.length > 1 ? DASHES[place % DASHES.length] : "solid" };
      // A single point has no line.
      const mode = series.y.length < 3 ? "lines+markers" : "lines";
      if (options.smoothing) {
        traces.push({ x, y: positive(series.y, panel.log), mode, line: { ...line, width: 1 }, opacity: 0.28, hoverinfo: "skip", showlegend: false, legendgroup: group });
      }
      const y = positive(smooth(series.y, options.smoothing), panel.log);
      traces.push({ x, y, mode, name, line, legendgroup: group, customdata: describePoints(curves, family), hovertemplate: "%{y:.4g}%{customdata}" });
    });
  }
  return traces;
}

// Seconds of each phase: stacked over the steps of one run, or the mean of each run side by side.
export function drawPhases(panel, runs, options) {
  const colours = seriesColours();
  const phases = panel.families.map(({ name }) => name).filter((name) => name !== "timing_s/step");
  const label = (name) => name.replace("timing_s/", "");
  if (runs.length > 1) {
    return runs.map((run) => ({
      // Lying, so that names of phases are read without turning the head.
      type: "bar", orientation: "h", name: run.name, marker: { color: run.colour }, y: phases.map(label),
      x: phases.map((name) => average(run.curves.series[name])), hovertemplate: "%{x:.3g} s on average",
    }));
  }
  return runs.flatMap((run) => phases.map((name, place) => {
    const series = run.curves.series[name];
    const colour = colours[place % colours.length];
    return {
      x: positions(run.curves, stepsOf(run.curves, series), options.axis), y: series.y, name: label(name), stackgroup: "time", stackgaps: "infer zero",
      mode: "lines", line: { width: 0.6, color: colour }, fillcolor: rgba(colour, 0.55), hovertemplate: "%{y:.3g} s",
    };
  }));
}

const average = (series) => (series ? series.y.reduce((sum, value) => sum + value, 0) / series.y.length : 0);

// A range around curves that never change, for which plotly would show 1 on either side, however small they are.
function rangeOf(panel, runs) {
  const found = runs.flatMap((run) => panel.families.flatMap(({ mean, low, high }) => [mean, low, high].flatMap((name) => {
    const summary = run.curves.summary[name];
    return summary ? [summary.min, summary.max] : [];
  })));
  const least = Math.min(...found);
  if (!found.length || panel.log || panel.phases || least !== Math.max(...found) || least === 0) return undefined;
  return [least - Math.abs(least) / 2, least + Math.abs(least) / 2];
}

export function makeLayout(panel, runs, options) {
  const ink = cssColour("--ink");
  const line = cssColour("--line");
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true };
  const bars = panel.phases && runs.length > 1;
  const entries = panel.phases ? (bars ? runs.length : panel.families.length) : runs.length * panel.families.length;
  // Many entries below a chart would leave no room for it.
  const legend = entries > 4 ? { orientation: "v", x: 1.01, y: 1 } : { orientation: "h", y: -0.24 };
  return {
    // The reader's zoom outlasts new points, but not another axis.
    uirevision: `${options.axis} ${bars}`,
    height: 250, margin: { l: 46, r: 8, t: 6, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 11 }, hovermode: bars ? "closest" : "x unified", barmode: "group",
    hoverlabel: { bgcolor: cssColour("--surface"), bordercolor: line, font: { color: ink } },
    legend: { ...legend, font: { size: 10.5 } }, showlegend: entries > 1,
    xaxis: { ...axis, title: { text: bars ? `${panel.unit}, mean of all steps` : options.axis, standoff: 4 } },
    yaxis: { ...axis, title: { text: bars ? "" : panel.unit, standoff: 4 }, type: bars ? "category" : panel.log && !panel.phases ? "log" : "linear", exponentformat: "power", ...(bars ? { autorange: "reversed" } : { range: rangeOf(panel, runs) }) },
  };
}

export const CONFIG = { displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "", modeBarButtonsToRemove: ["lasso2d", "select2d"] };
