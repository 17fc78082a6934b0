// Runs that differ in their seeds alone, as one: the median of the seeds, with the range of four fifths of them as its band.
import { lookUp, stepsOf } from "./charts.js";

// Settings that tell apart runs of one experiment.
const OF_A_RUN = new Set(["trainer.output", "model.name"]);
const isOfSeed = (name) => name === "seed" || name.endsWith(".seed");
const BAND = [0.1, 0.9];
// Runs whose names stand in the legend.
const NAMED = 3;

// Runs by what they have in common; those of one group differ in seeds, names and folders alone.
export function groupSeeds(runs) {
  const groups = new Map();
  for (const run of runs) {
    const { algorithm, settings } = run.about;
    const shared = Object.entries(settings).filter(([name]) => !OF_A_RUN.has(name) && !isOfSeed(name)).sort(([one], [other]) => (one < other ? -1 : 1));
    const key = JSON.stringify([algorithm, shared]);
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  return [...groups.values()];
}

// The value below which this share of the ascending values lies, by linear interpolation.
function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const low = Math.floor(place);
  const next = sorted[Math.min(low + 1, sorted.length - 1)];
  return sorted[low] + (place - low) * (next - sorted[low]);
}

// One series of several runs, over the steps of the one that has come furthest: seeds that have not come so far do not count.
function mergeSeries(curves, name) {
  const known = curves.flatMap((one) => (one.series[name] ? [{ steps: stepsOf(one, one.series[name]), y: one.series[name].y }] : []));
  const { steps } = known.reduce((most, one) => (one.steps.at(-1) > most.steps.at(-1) ? one : most));
  const merged = { y: [], lo: [], hi: [], count: [] };
  for (const step of steps) {
    const values = known.filter((one) => one.steps[0] <= step && step <= one.steps.at(-1)).map((one) => lookUp(one.steps, one.y, step)).sort((one, other) => one - other);
    merged.y.push(quantile(values, 0.5));
    merged.lo.push(quantile(values, BAND[0]));
    merged.hi.push(quantile(values, BAND[1]));
    merged.count.push(values.length);
  }
  return { steps, merged };
}

// One run for each group; a group of one stays as it is.
export function mergeSeeds(runs) {
  return groupSeeds(runs).map((group) => {
    if (group.length === 1) return group[0];
    const all = group.map((run) => run.curves);
    const names = [...new Set(all.flatMap((one) => Object.keys(one.series)))];
    const curves = { steps: [], series: {}, summary: {}, merged: true };
    for (const name of names) {
      const { steps, merged } = mergeSeries(all, name);
      curves.series[name] = { ...merged, x: curves.steps.push(steps) - 1 };
      curves.summary[name] = { min: Math.min(...merged.lo), max: Math.max(...merged.hi) };
    }
    const named = group.slice(0, NAMED).map(({ name }) => name).join(", ");
    return { ...group[0], name: `${named}${group.length > NAMED ? " …" : ""} (${group.length} seeds)`, curves };
  });
}
