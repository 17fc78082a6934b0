// The page: composer, thread, conversations, panel.
import { call, post } from "/static/api.js";
import { escape, render } from "/static/markdown.js";
import { cards, element } from "/static/parts.js";
import { Turn } from "/static/turn.js";
import { current, toggle, word } from "/static/words.js";

const $ = (id) => document.getElementById(id);
const TABS = ["sources", "data", "code", "trace"];
const state = { conversation: "", turn: null, tab: "sources" };

function words() {
  document.documentElement.lang = current();
  $("question").placeholder = word("placeholder");
  $("send").textContent = word("ask");
  $("compliance").textContent = word("compliance");
  $("language").textContent = current() === "zh" ? "EN" : "中文";
  $("tabs").innerHTML = TABS.map((tab) => `<button type="button" role="tab" data-tab="${tab}" aria-selected="${tab === state.tab}">${word(tab)}</button>`).join("");
}

function panel() {
  const parts = state.turn ? state.turn.panel(state.tab) : [];
  $("panel-body").replaceChildren(...(parts.length ? parts : [element("p", "dim", word("nothing"))]));
}

function changed(turn) {
  if (turn.conversation) state.conversation = turn.conversation;
  state.turn = turn;
  panel();
  if (turn.finished) conversations();
}

function add(question, runId) {
  const turn = new Turn(question, runId, changed);
  $("thread").append(turn.root);
  turn.root.scrollIntoView({ block: "start" });
  turn.root.turn = turn;
  turn.start();
  return turn;
}

async function ask(question) {
  try {
    const { run_id: runId } = await post("/v1/runs", { question, conversation_id: state.conversation });
    location.hash = `run=${runId}`;
    add(question, runId);
  } catch (error) {
    $("thread").append(element("p", "turn", `<span class="chip error">${escape(error.message)}</span>`));
  }
}

async function conversations() {
  const { conversations: items = [] } = await call("/v1/conversations").catch(() => ({}));
  const fresh = element("button", "new", escape(word("fresh")));
  fresh.addEventListener("click", () => { state.conversation = ""; location.hash = ""; $("thread").replaceChildren(); conversations(); $("question").focus(); });
  const buttons = items.map((item) => {
    const button = element("button", item.id === state.conversation ? "current" : "", escape(item.title));
    button.addEventListener("click", () => open(item.id));
    return button;
  });
  $("conversations").replaceChildren(fresh, ...buttons);
}

// Earlier turns come back through their runs, with all that they refer to.
async function open(id) {
  state.conversation = id;
  $("thread").replaceChildren();
  const { turns = [] } = await call(`/v1/conversations/${encodeURIComponent(id)}`);
  for (const turn of turns) {
    if (turn.run_id) add(turn.question, turn.run_id);
    else $("thread").append(element("section", "turn", `<div class="asked">${escape(turn.question)}</div><div class="answer">${render(turn.answer)}</div>`));
  }
  conversations();
}

async function models() {
  const { models: items = [] } = await call("/v1/models").catch(() => ({}));
  const first = items[0];
  const warming = items.filter((model) => model.state === "MODEL_STATE_WARMING").map((model) => model.name);
  $("model").textContent = !first ? `policy ${word("unreachable")}` : first.engine === "rules" ? word("rules") : first.name;
  $("model").classList.toggle("rules", first?.engine === "rules");
  $("model").title = items.map((model) => `${model.name}: ${model.state.replace("MODEL_STATE_", "").toLowerCase()}`).join("\n");
  if (warming.length) { $("model").textContent += ` · ${warming.join(", ")} warming`; setTimeout(models, 3000); }
}

function dark(on) {
  document.documentElement.classList.toggle("dark", on);
  localStorage.setItem("theme", on ? "dark" : "light");
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question) return;
  $("question").value = "";
  ask(question);
});
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("composer").requestSubmit(); }
  if (event.key === "Escape" && state.turn && !state.turn.finished) state.turn.stop();
});
$("language").addEventListener("click", () => { toggle(); words(); panel(); conversations(); models(); });
$("theme").addEventListener("click", () => dark(!document.documentElement.classList.contains("dark")));
$("panel-toggle").addEventListener("click", () => {
  const hidden = document.body.classList.toggle("no-panel");
  $("panel-toggle").setAttribute("aria-expanded", String(!hidden));
});
$("tabs").addEventListener("click", (event) => {
  const tab = event.target.dataset?.tab;
  if (tab) { state.tab = tab; words(); panel(); }
});
$("thread").addEventListener("click", (event) => {
  const chip = event.target.closest("[data-cite]");
  const turn = chip?.closest(".turn")?.turn;
  if (!turn) return;
  const item = turn.material.get(Number(chip.dataset.cite));
  Object.assign(state, { turn, tab: item?.code ? "code" : "sources" });
  document.body.classList.remove("no-panel");
  words();
  panel();
  const source = $("panel-body").querySelector(`[data-number="${chip.dataset.cite}"]`);
  source?.classList.add("flash");
  source?.scrollIntoView({ block: "center" });
});
cards($("thread"), (chip) => chip.closest(".turn")?.turn?.material.get(Number(chip.dataset.cite)));

document.body.classList.toggle("embed", new URLSearchParams(location.search).has("embed"));
if (innerWidth < 900) document.body.classList.add("no-panel");
dark((localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark");
words();
panel();
models();
conversations();
const resumed = /run=([\w-]+)/.exec(location.hash)?.[1];
if (resumed) call(`/v1/runs/${resumed}`).then((run) => add(run.trajectory.question, resumed)).catch(() => { location.hash = ""; });
