// Which metrics stand together in a chart. A family is a metric, or its mean with quantiles and extremes as bands.

// "*" at the end takes every family that begins so; "each" makes a chart of each of them.
export const SECTIONS = [
  { title: "Reward", panels: [
    { title: "Reward", unit: "reward", of: ["critic/score"] },
    { title: "Reward after penalties", unit: "reward", of: ["critic/rewards"] },
    { title: "Correct", unit: "share", of: ["acc"] },
    { title: "Spread within groups", unit: "reward", of: ["group/reward_std"] },
    { title: "Groups of one reward (no gradient)", unit: "share", of: ["group/flat", "filter/*"] },
    { title: "Advantage", unit: "advantage", of: ["critic/advantages"] },
  ] },
  { title: "Reward by component", panels: [{ unit: "reward", of: ["reward/*"], each: true }] },
  { title: "Validation", panels: [{ unit: "score", of: ["val/*"], each: true }] },
  { title: "Lengths", panels: [
    { title: "Response", unit: "tokens", of: ["response_length"] },
    { title: "Prompt", unit: "tokens", of: ["prompt_length"] },
    { title: "Cut off", unit: "share", of: ["response_length/clip_ratio"] },
    { title: "Tokens trained on", unit: "tokens", of: ["state_tokens/total"] },
    { title: "Turns and tool calls", unit: "count", of: ["rollout/turns", "rollout/tool_calls"] },
    { title: "Invalid actions", unit: "share", of: ["rollout/invalid_action_ratio"] },
    { title: "Code", unit: "statements, cells", of: ["code/*"] },
  ] },
  { title: "Policy", panels: [
    { title: "Entropy", unit: "nats per token", of: ["actor/entropy", "actor/entropy_loss"] },
    { title: "KL", unit: "nats per token", of: ["actor/reward_kl_penalty", "actor/kl_loss", "actor/ppo_kl"] },
    { title: "Clipped", unit: "share", of: ["actor/pg_clipfrac", "actor/pg_clipfrac_lower"] },
    { title: "Losses", unit: "loss", of: ["actor/pg_loss", "critic/vf_loss", "train/loss", "val/loss"] },
    { title: "Reward model", unit: "", of: ["reward_model/*"] },
    { title: "Gradient norm", unit: "norm", of: ["actor/grad_norm", "critic/grad_norm", "train/grad_norm"], log: true },
    { title: "Learning rate", unit: "", of: ["actor/lr", "critic/lr", "train/lr"] },
  ] },
  { title: "Mismatch of sampler and learner", panels: [
    { title: "KL", unit: "nats per token", of: ["mismatch/kl_k3", "mismatch/kl"] },
    { title: "Difference in probability", unit: "|p − p'|", of: ["mismatch/prob_diff"], log: true },
    { title: "Outside the clip range before any step", unit: "share", of: ["mismatch/outside_clip"] },
    { title: "Importance weights", unit: "weight", of: ["mismatch/importance", "mismatch/importance/masked"] },
  ] },
  { title: "Staleness", panels: [
    { title: "Age of samples", unit: "versions", of: ["rollout/age"] },
    { title: "Groups begun anew", unit: "groups", of: ["rollout/begun_anew"] },
    { title: "Groups of several versions", unit: "share", of: ["rollout/mixed_groups"] },
    { title: "Wait for samples", unit: "seconds", of: ["rollout/wait_s"] },
  ] },
  { title: "Time", panels: [
    { title: "Time per phase", unit: "seconds", phases: true, of: ["timing_s/*"] },
    { title: "Step", unit: "seconds", of: ["timing_s/step"] },
    { title: "Tokens trained per second", unit: "tokens / s", of: ["perf/tokens_per_s"] },
  ] },
];
const AXES = new Set(["time", "tokens"]);
const PARTS = { mean: "mean", max: "high", min: "low", median: "median", p10: "p10", p90: "p90" };
const PART = /^(.*)\/(mean|max|min|median|p10|p90)$/;

// The families of these metrics: {name, mean, low, high, median, p10, p90} with the metrics that give them.
export function findFamilies(names) {
  const known = new Set(names);
  const found = new Map();
  for (const name of names) {
    if (AXES.has(name) || name.startsWith("reward_std/")) continue;
    const [, base, part] = PART.exec(name) ?? [];
    const family = found.get(base ?? name) ?? { name: base ?? name };
    found.set(family.name, family);
    if (base) {
      family[PARTS[part]] = name;
      continue;
    }
    const spread = name.replace(/^reward\//, "reward_std/");
    Object.assign(family, { mean: name, spread: spread !== name && known.has(spread) ? spread : null });
  }
  for (const family of found.values()) family.mean ??= family.median ?? family.high ?? family.low;
  return found;
}

const fits = (name, pattern) => (pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern);

// The charts of these metrics by section; what no section names is in the last one, so that no metric is invisible.
export function arrangePanels(names) {
  const families = findFamilies(names);
  const left = new Set(families.keys());
  const sections = SECTIONS.map(({ title, panels }) => ({ title, panels: panels.flatMap((panel) => {
    const chosen = [...families.values()].filter(({ name }) => panel.of.some((pattern) => fits(name, pattern)));
    for (const { name } of chosen) left.delete(name);
    if (!chosen.length) return [];
    return panel.each ? chosen.map((one) => ({ ...panel, title: one.name, families: [one] })) : [{ ...panel, families: chosen }];
  }) }));
  const others = [...left].map((name) => ({ title: name, unit: "", families: [families.get(name)] }));
  const missing = SECTIONS.flatMap(({ panels }) => panels).filter((panel) => panel.title
    && ![...families.keys()].some((name) => panel.of.some((pattern) => fits(name, pattern)))).map(({ title }) => title);
  return { sections: [...sections, { title: "Other metrics", panels: others, closed: true }].filter(({ panels }) => panels.length), missing };
}
