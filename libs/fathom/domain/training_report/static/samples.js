// Sampled rows, token by token: what is trained on, with which sign, and where sampler and learner disagree.
import { el, short } from "./dom.js";

const MODES = { all: "advantage and difference", mask: "mask", advantage: "advantage", difference: "log-probability difference", probability: "probability" };
// Nats at which the colour of a difference is full: e^0.5 is a ratio of 1.65, far outside any clip range.
const FULL_DIFFERENCE = 0.5;
const LEAST = 0.12;

const visible = (text) => text.replace(/\n/g, "↵\n").replace(/\t/g, "⇥\t") || "·";
const strength = (value, full) => (full > 0 ? LEAST + (0.5 - LEAST) * Math.min(1, Math.abs(value) / full) : 0);
const colour = (name, share) => `rgb(var(--${name}) / ${share.toFixed(2)})`;

export const differenceAt = (response, at) => (response.learner ? response.learner[at] - response.rollout[at] : null);

function paint(span, response, at, mode, fullAdvantage) {
  if (!response.mask[at]) {
    span.className = "masked";
    return;
  }
  const advantage = response.advantage ? response.advantage[at] : 0;
  const difference = differenceAt(response, at);
  if (mode === "mask") span.style.background = colour("plus", 0.3);
  if ((mode === "all" || mode === "advantage") && advantage) {
    span.style.background = colour(advantage > 0 ? "plus" : "minus", strength(advantage, fullAdvantage));
  }
  if (mode === "difference" && difference !== null) {
    span.style.background = colour(difference > 0 ? "plus" : "minus", strength(difference, FULL_DIFFERENCE));
  }
  if (mode === "all" && difference !== null && Math.abs(difference) > 1e-3) {
    span.style.borderBottomColor = colour("gap", Math.min(1, 0.3 + Math.abs(difference) / FULL_DIFFERENCE));
  }
  if (mode === "probability") span.style.background = colour("plus", Math.exp(response.rollout[at]) * 0.6);
}

function describe(part, at, prompt) {
  const text = `“${visible(part.text[at])}” id ${part.ids[at]}`;
  if (prompt) return `${text} · prompt`;
  if (!part.mask[at]) return `${text} · mask 0: not sampled by the policy`;
  const difference = differenceAt(part, at);
  const learner = part.learner ? `, learner ${short(part.learner[at])} (difference ${short(difference)}, ratio ${short(Math.exp(difference))})` : "";
  const advantage = part.advantage ? ` · advantage ${short(part.advantage[at])}` : "";
  return `${text} · mask 1${advantage} · log-probability: sampler ${short(part.rollout[at])}${learner}`;
}

function spans(part, prompt, mode, say, full = 0) {
  const box = el("div", { class: "tokens mono", tabindex: "0" });
  part.text.forEach((text, at) => {
    if (part.cut && part.cut.at === at) box.append(el("span", { class: "cut" }, `${part.cut.count.toLocaleString("en")} tokens left out`));
    const span = el("span", { class: prompt ? "prompt" : null }, visible(text));
    if (!prompt) paint(span, part, at, mode, full);
    box.append(span);
    span.dataset.at = at;
  });
  // One listener for thousands of tokens.
  let last = null;
  box.addEventListener("mouseover", (event) => {
    const at = event.target.dataset?.at;
    if (at === undefined) return;
    last?.classList.remove("at");
    last = event.target;
    last.classList.add("at");
    say(describe(part, Number(at), prompt));
  });
  return box;
}

const LEGENDS = {
  all: [["plus", 0.6, "advantage above 0"], ["minus", 0.6, "advantage below 0"], ["gap", 0.8, "underline: learner and sampler differ"]],
  mask: [["plus", 0.3, "mask 1: trained on"]],
  advantage: [["plus", 0.6, "above 0"], ["minus", 0.6, "below 0"]],
  difference: [["plus", 0.6, "learner gives more"], ["minus", 0.6, "learner gives less; full colour at 0.5 nats"]],
  probability: [["plus", 0.6, "the fuller, the likelier when sampled"]],
};

function facts(row) {
  const response = row.response;
  const trained = response.mask.reduce((sum, one) => sum + one, 0);
  const differences = response.learner ? response.mask.flatMap((one, at) => (one ? [Math.abs(differenceAt(response, at))] : [])) : [];
  const mean = differences.length ? differences.reduce((sum, one) => sum + one, 0) / differences.length : null;
  return [
    ["reward", short(row.reward)], ...Object.entries(row.components ?? {}).map(([name, value]) => [name, short(value)]),
    ["response", `${row.response_tokens.toLocaleString("en")} tokens, ${row.trained_tokens.toLocaleString("en")} trained on`],
    response.cut ? ["shown", `${response.text.length.toLocaleString("en")} tokens, ${trained.toLocaleString("en")} with mask 1`] : null,
    row.version_min === undefined ? null : ["weights", row.version_min === row.version_max ? `version ${row.version_min}` : `versions ${row.version_min}–${row.version_max}`],
    mean === null ? ["difference", "not measured: the sampler's values are the old ones (bypass_mode)"] : ["mean |difference|", `${short(mean)} nats, at most ${short(Math.max(...differences))}`],
  ].filter(Boolean);
}

// The view of one step's rows; ``view`` has the row and the colours, ``change`` is told of another choice.
export function drawSample(sample, view, change) {
  const rows = sample.rows;
  if (!rows.length) return el("p", { class: "dim" }, "No rows.");
  const place = Math.min(view.row ?? 0, rows.length - 1);
  const row = rows[place];
  const mode = MODES[view.colour] ? view.colour : "all";
  // One scale for all rows of the step, so that a small advantage looks small.
  const full = rows.reduce((most, one) => (one.response.advantage ?? []).reduce((more, value) => Math.max(more, Math.abs(value)), most), 0);
  const line = el("p", { id: "token-line", class: "mono dim", "aria-live": "polite" }, "Point at a token for its numbers.");
  const say = (text) => { line.textContent = text; };
  const legend = [...LEGENDS[mode].map(([name, share, text]) => {
    const box = el("i");
    box.style.background = colour(name, share);
    return el("span", {}, box, text);
  }), el("span", {}, Object.assign(el("i"), { style: "background: var(--masked)" }), "mask 0: prompt, tools, environment")];
  return el("div", {},
    el("div", { class: "bar" },
      rows.map((one, at) => el("button", { type: "button", "aria-pressed": String(at === place), onclick: () => change({ row: at }) }, `${one.why.join(", ") || `row ${at + 1}`} · ${short(one.reward)}`)),
      el("span", { class: "spacer" }),
      el("label", {}, "colour", el("select", { id: "sample-colour", onchange: (event) => change({ colour: event.target.value }) },
        Object.entries(MODES).map(([value, text]) => el("option", { value, selected: value === mode }, text))))),
    el("div", { class: "legend" }, legend),
    el("p", { class: "dim" }, facts(row).map(([name, value], at) => `${at ? " · " : ""}${name} ${value}`).join(""), row.uid ? ` · prompt ${row.uid}` : ""),
    el("details", { open: row.prompt.text.length <= 200 }, el("summary", {}, `Prompt, ${row.prompt_tokens.toLocaleString("en")} tokens`), spans(row.prompt, true, mode, say)),
    el("h3", {}, "Response"), spans(row.response, false, mode, say, full), line);
}
