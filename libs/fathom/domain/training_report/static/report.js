// The report of trainings: choice of runs, charts, settings, samples. Its data are in the file itself, or the gateway's.
import { ago, cssColour, el, seriesColours, short } from "./dom.js";
import { arrangePanels } from "./panels.js";
import { CONFIG, drawPhases, drawTraces, makeLayout } from "./charts.js";
import { groupSeeds, mergeSeeds } from "./seeds.js";
import { drawSample } from "./samples.js";

const POLL_MS = 10_000;
// A training that says nothing for this long, and for five of its steps, is probably gone.
const QUIET_S = 120;
const MOST_RUNS = 8;
const HEADLINES = ["critic/score/mean", "acc", "val/test_score", "train/loss", "val/loss", "actor/entropy", "response_length/mean", "mismatch/kl_k3", "rollout/age/mean", "timing_s/step", "perf/tokens_per_s"];

// The report's data as the file holds them: nothing is fetched.
class FileSource {
  constructor(data) {
    this.data = data;
    this.runs = new Map(data.trainings.map((run) => [run.about.name, run]));
    this.now = data.written;
  }

  async list() {
    return [...this.runs.values()].map(({ about }) => about);
  }

  async load(name) {
    return this.runs.get(name);
  }

  async sample(name, step) {
    return this.runs.get(name).sampled[step];
  }
}

// The gateway's data, asked for again while a training runs.
class GatewaySource {
  constructor() {
    this.tags = new Map();
    this.held = new Map();
  }

  get now() {
    return Date.now() / 1000;
  }

  async #get(path) {
    const response = await fetch(`v1/trainings${path}`, { headers: this.tags.has(path) ? { "if-none-match": this.tags.get(path) } : {} });
    if (response.status === 304) return this.held.get(path);
    const content = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(content.detail ?? `HTTP ${response.status}`);
    this.tags.set(path, response.headers.get("etag") ?? "");
    this.held.set(path, content);
    return content;
  }

  async list() {
    const found = [];
    let token = "";
    do {
      const page = await this.#get(`?page_token=${encodeURIComponent(token)}`);
      found.push(...page.trainings);
      token = page.next_page_token;
    } while (token);
    return found;
  }

  load(name) {
    return this.#get(`/${encodeURIComponent(name)}`);
  }

  sample(name, step) {
    return this.#get(`/${encodeURIComponent(name)}/samples/${step}`);
  }
}

// What the reader has chosen, kept in the address, so that a reload or a link shows the same.
class View {
  constructor() {
    this.chosen = null;
    Object.assign(this, { axis: "step", smoothing: 0, bands: true, seeds: false, filter: "", live: true, sample: {}, closed: [] });
    try {
      Object.assign(this, JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}"));
    } catch {
      // An address that was cut short shows the report as it is at first.
    }
  }

  keep() {
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(this))}`);
  }
}

class Report {
  constructor(root, source) {
    this.root = root;
    this.source = source;
    this.view = new View();
    this.runs = new Map();
    this.shown = new IntersectionObserver((entries) => entries.forEach((entry) => {
      if (entry.isIntersecting) this.#draw(entry.target);
    }), { rootMargin: "300px" });
    this.parts = { head: el("header", { class: "bar" }), problem: el("p", { class: "note bad", role: "alert", hidden: true }), list: el("div", { id: "trainings" }), notes: el("div"), table: el("div"), charts: el("div", { id: "charts" }), settings: el("div"), samples: el("div", { id: "samples" }) };
    root.replaceChildren(...Object.values(this.parts));
  }

  async start() {
    this.#applyTheme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#applyTheme());
    await this.refresh();
    if (this.view.scroll) scrollTo(0, this.view.scroll);
    this.#keepLive();
  }

  // Reads list and chosen runs again and draws what changed.
  async refresh() {
    try {
      const listed = await this.source.list();
      listed.sort((one, other) => other.started - one.started);
      this.listed = listed;
      const names = new Set(listed.map(({ name }) => name));
      this.view.chosen = (this.view.chosen ?? listed.slice(0, this.source.data ? MOST_RUNS : 1).map(({ name }) => name)).filter((name) => names.has(name));
      const changed = await this.#load();
      this.parts.problem.hidden = true;
      if (changed || !this.drawn) this.draw();
      else this.#drawList();
    } catch (problem) {
      this.parts.problem.textContent = problem.message;
      this.parts.problem.hidden = false;
    }
  }

  async #load() {
    let changed = false;
    for (const name of this.view.chosen) {
      const run = await this.source.load(name);
      if (this.runs.get(name)?.data === run) continue;
      this.runs.set(name, { name, data: run, curves: run.curves, about: run.about });
      changed = true;
    }
    return changed;
  }

  // The chosen runs, each with the colour that it has everywhere: that of its experiment where seeds are one curve.
  get chosen() {
    const colours = seriesColours();
    const runs = this.view.chosen.map((name) => ({ ...this.runs.get(name) })).filter((run) => run.data);
    const groups = this.view.seeds ? groupSeeds(runs) : runs.map((run) => [run]);
    groups.forEach((group, place) => group.forEach((run) => { run.colour = colours[place % colours.length]; }));
    return runs;
  }

  // Runs as the charts show them: one curve each, or one for all seeds of an experiment.
  get drawnRuns() {
    const runs = this.chosen;
    if (!this.view.seeds) return runs;
    // Once for all charts, until a run has gone on or the theme has changed.
    const of = runs.flatMap((run) => [run.data, run.colour]);
    if (this.joined?.of.length !== of.length || of.some((one, at) => one !== this.joined.of[at])) this.joined = { of, runs: mergeSeeds(runs) };
    return this.joined.runs;
  }

  async choose(name, on) {
    const others = this.view.chosen.filter((one) => one !== name);
    this.view.chosen = on ? [...others, name].slice(-MOST_RUNS) : others;
    this.view.keep();
    await this.refresh();
    this.draw();
  }

  draw() {
    this.drawn = true;
    this.#drawHead();
    this.#drawList();
    this.#drawNotes();
    this.#drawTable();
    this.#drawCharts();
    this.#drawSettings();
    this.#drawSamples();
  }

  #set(changes) {
    Object.assign(this.view, changes);
    this.view.keep();
    this.#drawCharts();
  }

  #joinSeeds(seeds) {
    this.#set({ seeds });
    this.#drawList();
    this.#drawTable();
  }

  #drawHead() {
    const view = this.view;
    const axes = [["step", "step"], ["hours", "hours"], ["tokens", "tokens trained on"]];
    this.parts.head.replaceChildren(
      ...(this.source.data ? [] : [el("a", { href: "./" }, "Fathom")]),
      el("h1", {}, this.source.data?.title ?? "Trainings"),
      el("span", { class: "spacer" }),
      el("label", {}, "axis", el("select", { id: "axis", onchange: (event) => this.#set({ axis: event.target.value }) }, axes.map(([value, text]) => el("option", { value, selected: value === view.axis }, text)))),
      el("label", {}, "smoothing", el("input", { id: "smoothing", type: "range", min: 0, max: 0.98, step: 0.02, value: view.smoothing, oninput: (event) => this.#set({ smoothing: Number(event.target.value) }) })),
      el("label", {}, el("input", { id: "bands", type: "checkbox", checked: view.bands, onchange: (event) => this.#set({ bands: event.target.checked }) }), "bands"),
      // Where there is nothing to join the box would do nothing.
      ...(groupSeeds(this.chosen).length < this.chosen.length ? [el("label", { title: "Runs that differ in seeds alone as one curve: their median, and four fifths of them as its band" }, el("input", { id: "seeds", type: "checkbox", checked: view.seeds, onchange: (event) => this.#joinSeeds(event.target.checked) }), "seeds as one")] : []),
      el("input", { id: "filter", type: "search", placeholder: "metric", "aria-label": "metric", value: view.filter, oninput: (event) => this.#set({ filter: event.target.value }) }),
      el("label", {}, el("input", { id: "live", type: "checkbox", checked: view.live, onchange: (event) => { view.live = event.target.checked; view.keep(); } }), "live"),
      el("button", { id: "theme", type: "button", "aria-label": "Light or dark", onclick: () => this.#switchTheme() }, "◐"));
  }

  #state(about) {
    const silent = this.source.now - about.updated;
    const pace = this.runs.get(about.name)?.curves.summary["timing_s/step"]?.last ?? 0;
    if (about.state === "running" && silent > Math.max(QUIET_S, 5 * pace)) return ["warn", `running, silent for ${ago(silent)}`];
    if (about.state === "running") return ["good", "running"];
    return about.state === "finished" ? ["dim", "finished"] : ["bad", `${about.state}${about.error ? `: ${about.error}` : ""}`];
  }

  #drawList() {
    const chosen = new Map(this.chosen.map((run) => [run.name, run.colour]));
    const rows = (this.listed ?? []).map((about) => {
      const [kind, text] = this.#state(about);
      const swatch = el("i", { class: "swatch" });
      if (chosen.has(about.name)) swatch.style.background = chosen.get(about.name);
      const box = el("input", { type: "checkbox", checked: chosen.has(about.name), onchange: (event) => this.choose(about.name, event.target.checked) });
      return el("tr", { data: { training: about.name } },
        el("td", {}, el("label", {}, box, swatch, about.name)), el("td", { class: "text" }, about.algorithm), el("td", { class: "text" }, about.model), el("td", { class: `text ${kind}` }, text),
        el("td", {}, `${about.step.toLocaleString("en")} of ${about.total ? about.total.toLocaleString("en") : "?"}`),
        el("td", {}, about.started ? new Date(about.started * 1000).toLocaleString() : ""), el("td", {}, about.updated ? `${ago(this.source.now - about.updated)} ago` : ""));
    });
    const head = el("tr", {}, ["training", "algorithm", "model", "state", "step", "started", "last written"].map((text, place) => el("th", { class: place < 4 ? "text" : null }, text)));
    this.parts.list.replaceChildren(el("h2", {}, "Trainings"), rows.length
      ? el("div", { class: "card scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)))
      : el("p", { class: "dim" }, "There are none yet: “fathom train grpo” begins one."));
  }

  #drawNotes() {
    const several = this.chosen.length > 1;
    this.parts.notes.replaceChildren(...this.chosen.flatMap((run) => {
      const who = several ? `${run.name}: ` : "";
      const broken = Object.entries(run.curves.not_finite).map(([name, step]) => el("p", { class: "note bad" }, `${who}${name} was not finite from step ${step}`));
      const unshown = run.curves.left_out.length ? [el("p", { class: "note" }, `${who}${run.curves.left_out.length} more metrics are not shown: ${run.curves.left_out.slice(0, 5).join(", ")} …`)] : [];
      return [...run.about.notes.map((note) => el("p", { class: "note" }, who + note)), ...broken, ...unshown];
    }));
  }

  #drawTable() {
    const runs = this.chosen;
    const components = [...new Set(runs.flatMap((run) => Object.keys(run.curves.series)))].filter((name) => name.startsWith("reward/") && !/\/(median|p10|p90)$/.test(name)).sort();
    const names = [...HEADLINES, ...components].filter((name) => runs.some((run) => run.curves.summary[name]));
    const rows = names.flatMap((name) => runs.filter((run) => run.curves.summary[name]).map((run, place) => {
      const one = run.curves.summary[name];
      const swatch = el("i", { class: "swatch" });
      swatch.style.background = run.colour;
      return el("tr", {}, el("td", {}, place ? "" : name), el("td", { class: "text" }, swatch, run.name), el("td", {}, short(one.first)), el("td", {}, short(one.last)),
        el("td", {}, short(one.min)), el("td", {}, one.min_step), el("td", {}, short(one.max)), el("td", {}, one.max_step));
    }));
    const head = el("tr", {}, ["metric", "training", "first", "last", "least", "at step", "most", "at step"].map((text, place) => el("th", { class: place < 2 ? "text" : null }, text)));
    this.parts.table.replaceChildren(...(rows.length ? [el("h2", {}, "Summary"), el("div", { class: "card scroll" }, el("table", { id: "summary" }, el("thead", {}, head), el("tbody", {}, rows)))] : []));
  }

  #drawCharts() {
    const runs = this.drawnRuns;
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.curves.series)))].sort();
    const { sections, missing } = arrangePanels(names);
    const wanted = this.view.filter.trim().toLowerCase();
    // While the charts stay the same ones, their curves alone are drawn anew: scroll position and zoom stay.
    const signature = JSON.stringify([sections, wanted, runs.length > 1]);
    if (signature === this.signature) {
      this.parts.charts.firstChild?.replaceWith(this.#explainBands(runs));
      for (const plot of this.panels.keys()) if (plot.dataset.drawn) this.#draw(plot, true);
      return;
    }
    this.signature = signature;
    this.shown.disconnect();
    this.panels = new Map();
    const parts = sections.flatMap(({ title, panels, closed }) => {
      const kept = panels.map((panel) => ({ ...panel, families: panel.families.filter(({ name }) => `${panel.title} ${name}`.toLowerCase().includes(wanted)) })).filter(({ families }) => families.length);
      if (!kept.length) return [];
      const cards = kept.map((panel) => {
        const plot = el("div", { class: "plot" });
        this.panels.set(plot, panel);
        this.shown.observe(plot);
        return el("div", { class: "card", data: { panel: panel.title } }, el("h3", {}, panel.title), plot);
      });
      const charts = el("div", { class: "charts" }, cards);
      const section = closed && !wanted ? el("details", {}, el("summary", {}, el("h2", { style: "display: inline" }, `${title} (${kept.length})`)), charts) : el("section", {}, el("h2", {}, title), charts);
      // Sections of few charts stand beside each other.
      section.style.setProperty("--count", closed ? 99 : cards.length);
      return [section];
    });
    this.parts.charts.replaceChildren(this.#explainBands(runs), el("div", { class: "sections" }, parts), missing.length && runs.length && !wanted ? el("p", { class: "dim", id: "missing" }, `Nothing was measured for: ${missing.join(", ")}.`) : "");
  }

  #explainBands(runs) {
    const seeds = runs.some((run) => run.curves.merged) ? " Of several seeds: the median, and the range of four fifths of them." : "";
    const text = this.view.bands ? `Lines are means of a step's rows; the darker band holds four fifths of the rows, the lighter one all.${seeds}` : "";
    return el("p", { class: "dim", id: "bands-are", hidden: !text || !runs.length }, text);
  }

  #draw(plot, again = false) {
    const panel = this.panels.get(plot);
    if (!panel || (plot.dataset.drawn && !again)) return;
    plot.dataset.drawn = "yes";
    const runs = this.drawnRuns;
    const traces = (panel.phases ? drawPhases : drawTraces)(panel, runs, this.view);
    globalThis.Plotly.react(plot, traces, makeLayout(panel, runs, this.view), CONFIG);
  }

  #drawSettings() {
    const runs = this.chosen;
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.about.settings)))].sort();
    const text = (run, name) => (name in run.about.settings ? JSON.stringify(run.about.settings[name]) : "–");
    const differing = names.filter((name) => new Set(runs.map((run) => text(run, name))).size > 1);
    const table = (chosen) => el("div", { class: "card scroll" }, el("table", { class: "mono" },
      el("thead", {}, el("tr", {}, el("th", {}, "setting"), runs.map((run) => el("th", {}, run.name)))),
      el("tbody", {}, chosen.map((name) => el("tr", {}, el("td", {}, name), runs.map((run) => el("td", {}, text(run, name))))))));
    this.parts.settings.replaceChildren(...(names.length ? [el("h2", {}, "Settings"),
      runs.length > 1 ? el("div", { id: "differences" }, differing.length ? [el("p", {}, `${differing.length} differ:`), table(differing)] : el("p", { class: "dim" }, "All are the same.")) : null,
      el("details", {}, el("summary", {}, `All ${names.length} settings`), table(names))].filter(Boolean) : []));
  }

  async #drawSamples() {
    const part = this.parts.samples;
    const runs = this.chosen.filter((run) => run.data.samples.length);
    if (!runs.length) {
      part.replaceChildren(...(this.chosen.length ? [el("h2", {}, "Samples"), el("p", { class: "dim" }, "None were kept: trainings from files have none, and trainer.samples=0 keeps none.")] : []));
      return;
    }
    const view = this.view.sample;
    const run = runs.find(({ name }) => name === view.run) ?? runs[0];
    const steps = run.data.samples;
    // The newest while none is chosen, so that it moves on with the training.
    const at = view.step === undefined ? steps.length - 1 : Math.max(0, steps.findLastIndex((step) => step <= view.step));
    const change = (changes) => {
      this.view.sample = { ...this.view.sample, ...changes };
      this.view.keep();
      this.#drawSamples();
    };
    const step = steps[at];
    const asked = JSON.stringify([runs.map(({ name }) => name), steps, run.name, step, view]);
    // Drawn already: what the reader has opened or marked stays.
    if (this.asked === asked) return;
    this.asked = asked;
    let body;
    try {
      body = drawSample(await this.source.sample(run.name, step), view, change);
    } catch (problem) {
      body = el("p", { class: "note bad" }, problem.message);
    }
    // Another one was chosen while this one was fetched.
    if (this.asked !== asked) return;
    const move = (by) => change({ step: steps[Math.min(steps.length - 1, Math.max(0, at + by))] });
    const unshown = run.data.samples_left_out ?? 0;
    part.replaceChildren(el("h2", {}, "Samples"), el("div", { class: "card" },
      el("div", { class: "bar" },
        runs.length > 1 ? el("label", {}, "training", el("select", { id: "sample-run", onchange: (event) => change({ run: event.target.value, step: undefined, row: 0 }) }, runs.map(({ name }) => el("option", { value: name, selected: name === run.name }, name)))) : null,
        el("button", { type: "button", "aria-label": "Earlier step", disabled: at === 0, onclick: () => move(-1) }, "‹"),
        el("label", {}, "step", el("select", { id: "sample-step", onchange: (event) => change({ step: Number(event.target.value) }) }, steps.map((one) => el("option", { value: one, selected: one === step }, one)))),
        el("button", { type: "button", "aria-label": "Later step", disabled: at === steps.length - 1, onclick: () => move(1) }, "›"),
        unshown ? el("span", { class: "dim" }, `${unshown} more steps are in the store; this file holds what fits`) : null),
      body));
  }

  #applyTheme() {
    const wish = remembered("theme");
    document.documentElement.dataset.theme = wish ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    if (this.drawn) this.draw();
  }

  #switchTheme() {
    remember("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    this.#applyTheme();
  }

  // The gateway is asked again; a file is loaded again, which the training has written anew.
  #keepLive() {
    const every = this.source.data ? this.source.data.reload_s * 1000 : POLL_MS;
    if (!every) return;
    setInterval(async () => {
      if (!this.view.live || document.hidden) return;
      if (!this.source.data) {
        await this.refresh();
      } else if ((this.listed ?? []).some(({ state }) => state === "running")) {
        this.view.scroll = Math.round(scrollY);
        this.view.keep();
        location.reload();
      }
    }, every);
  }
}

// As the gateway's page keeps it, whose wish this is too.
function remembered(name) {
  try {
    return localStorage.getItem(`fathom.${name}`);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`fathom.${name}`, value);
  } catch {
    // A browser that forbids storage keeps the wish for this visit alone.
  }
}

const held = document.getElementById("report-data");
const report = new Report(document.getElementById("report"), held ? new FileSource(JSON.parse(held.textContent)) : new GatewaySource());
await report.start();
