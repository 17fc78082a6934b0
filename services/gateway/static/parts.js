// The live parts of an answer: tables by reference, figures, hover cards.
import { call } from "/static/api.js";
import { escape } from "/static/markdown.js";
import { word } from "/static/words.js";

export function element(tag, className = "", html = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.innerHTML = html;
  return made;
}

const PAGE = 50;
const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 4 });
const shown = (value) => (value === null ? "–" : typeof value === "number" ? number.format(value) : escape(String(value)));

// A table of the full sheet: sorted and paged by the server, exported whole.
export function tableOf(sheet, variable) {
  const box = element("div", "table");
  const state = { offset: 0, sort: "", desc: false, total: Number(sheet.rows ?? 0) };
  const facts = new Map((sheet.columns ?? []).map((column) => [column.name, column]));
  const asOf = (sheet.columns ?? []).map((column) => column.as_of ?? "").sort().at(-1);
  const sources = [...new Set((sheet.columns ?? []).map((column) => column.source).filter(Boolean))].join(", ");
  async function load() {
    const query = new URLSearchParams({ offset: state.offset, limit: PAGE, sort: state.sort, desc: state.desc });
    const page = await call(`/v1/tables/${sheet.id}?${query}`);
    const head = page.columns.map(({ name }) => `<th data-sort="${escape(name)}" tabindex="0">${escape(name)}${state.sort === name ? (state.desc ? " ▼" : " ▲") : ""}<small>${escape(facts.get(name)?.unit ?? "")}</small></th>`);
    const rows = page.rows.map((row) => `<tr>${row.map((value) => `<td>${shown(value)}</td>`).join("")}</tr>`);
    const last = Math.min(state.offset + PAGE, page.total);
    box.innerHTML = `<div class="bar"><b>${escape(variable)} · ${escape(sheet.title)}</b>
      <span>${page.total ? state.offset + 1 : 0}–${last} / ${number.format(page.total)} ${word("rows")}</span>
      <button type="button" data-move="-1" ${state.offset ? "" : "disabled"}>${word("previous")}</button>
      <button type="button" data-move="1" ${last < page.total ? "" : "disabled"}>${word("next")}</button>
      <a href="/v1/tables/${sheet.id}/export?format=csv">CSV</a> <a href="/v1/tables/${sheet.id}/export?format=xlsx">XLSX</a></div>
      <div class="scroll"><table><thead><tr>${head.join("")}</tr></thead><tbody>${rows.join("")}</tbody></table></div>
      <div class="bar dim">${escape(sources)} · ${word("asof")} ${escape(asOf ?? "")}</div>`;
  }
  const failed = (error) => { box.innerHTML = `<span class="chip error">${escape(variable)}: ${escape(error.message)}</span>`; };
  box.addEventListener("click", (event) => {
    const move = event.target.closest("[data-move]");
    const column = event.target.closest("[data-sort]");
    if (move) state.offset = Math.max(0, state.offset + PAGE * Number(move.dataset.move));
    else if (column) Object.assign(state, { desc: state.sort === column.dataset.sort && !state.desc, sort: column.dataset.sort, offset: 0 });
    else return;
    load().catch(failed);
  });
  box.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches("[data-sort]")) event.target.click(); });
  load().catch(failed);
  return box;
}

let plotly = null;
function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly"));
    document.head.append(script);
  });
  return plotly;
}

// An interactive figure; the bundle is loaded when the first one is shown.
export function figureOf(runId, figureId) {
  const box = element("div", "figure", `<p class="dim">${word("drawing")}</p>`);
  (async () => {
    const [library, figure] = await Promise.all([loadPlotly(), call(`/v1/runs/${runId}/figures/${figureId}`)]);
    const dark = document.documentElement.classList.contains("dark");
    const style = getComputedStyle(document.body);
    const layout = { hovermode: "x unified", ...figure.layout, autosize: true, height: undefined, width: undefined, paper_bgcolor: "transparent",
      plot_bgcolor: "transparent", font: { color: style.color, family: style.fontFamily, size: 12 }, margin: { l: 50, r: 20, t: 44, b: 40 } };
    for (const axis of ["xaxis", "yaxis"]) layout[axis] = { ...layout[axis], gridcolor: dark ? "#2c3641" : "#e4e8ed", zerolinecolor: dark ? "#2c3641" : "#e4e8ed" };
    box.textContent = "";
    // Plotly Express draws long lines with WebGL, which not every browser has; SVG is fast enough for them.
    const traces = figure.data.map((trace) => (trace.type === "scattergl" ? { ...trace, type: "scatter" } : trace));
    await library.newPlot(box, traces, layout, { responsive: true, displaylogo: false });
    box.dataset.drawn = figureId;
  })().catch((error) => { box.innerHTML = `<span class="chip error">${escape(figureId)}: ${escape(error.message)}</span>`; });
  return box;
}

const day = (time) => (time ? String(time).slice(0, 10) : "");
export function kindOf(item) { return ["passage", "sheet", "code", "missing"].find((kind) => item[kind]) ?? ""; }

// What a citation stands for, as the card and the source list show it.
export function describe(item) {
  const kind = kindOf(item);
  const part = item[kind] ?? {};
  if (kind === "passage") return `<b>${escape(part.title ?? "")}</b><div class="dim">${escape(part.source ?? "")} ${day(part.publish_time)}</div><div>${escape((part.text ?? "").slice(0, 260))}…</div>`;
  if (kind === "sheet") {
    const columns = (part.columns ?? []).map((c) => `${escape(c.name)}${c.unit ? ` (${escape(c.unit)})` : ""}`).join(", ");
    const sources = [...new Set((part.columns ?? []).map((c) => c.source).filter(Boolean))].join(", ");
    return `<b>${escape(item.variable)}: ${escape(part.title ?? "")}</b><div class="dim">${escape(sources)} · ${part.rows} ${word("rows")}</div><div>${columns}</div>`;
  }
  if (kind === "code") return `<b>${word("code")}</b><pre><code>${escape((part.code ?? "").slice(0, 400))}</code></pre><pre>${escape((part.stdout ?? "").slice(0, 400))}</pre>`;
  return `<b>${word("missing")}: ${escape(part.subject ?? "")}</b><div>${escape(part.detail ?? "")}</div>`;
}

// Hover cards of citations, also on keyboard focus.
export function cards(thread, materialOf) {
  const card = document.getElementById("card");
  const show = (event) => {
    const chip = event.target.closest?.("[data-cite]");
    const item = chip && materialOf(chip);
    if (!item) return;
    card.innerHTML = describe(item);
    card.hidden = false;
    const box = chip.getBoundingClientRect();
    card.style.left = `${Math.max(8, Math.min(box.left, innerWidth - card.offsetWidth - 8))}px`;
    card.style.top = `${box.bottom + card.offsetHeight + 8 > innerHeight ? box.top - card.offsetHeight - 6 : box.bottom + 6}px`;
  };
  const hide = () => { card.hidden = true; };
  for (const name of ["mouseover", "focusin"]) thread.addEventListener(name, show);
  for (const name of ["mouseout", "focusout"]) thread.addEventListener(name, hide);
}
