// The page: wires composer, thread, conversations and panel. Where the reader is stands in the address:
// #c=<conversation>&run=<run>, so that a reload in mid-run goes on.
import { call, path, post } from "./base/api";
import { Choices } from "./composer/choices";
import { hideCard, moveCard } from "./answer/cite";
import { announce, byId, el } from "./base/dom";
import { count } from "./base/format";
import { MemoryPanel } from "./side/memory";
import { Panel } from "./side/panel";
import { Sidebar } from "./side/sidebar";
import { Turn } from "./turn/turn";
import { Uploads } from "./composer/uploads";
import { EXAMPLES } from "./base/dictionary";
import { language, remember, remembered, switchLanguage, translate, word } from "./base/words";

const MAX_QUESTION = 8000;
const MODELS_PAUSE_MS = 3000;
const LEARNT_MS = 2000;

class App {
  constructor() {
    this.conversation = "";
    this.turns = [];
    // Counts what the reader turned to: an answer that comes after he turned elsewhere is not shown.
    this.visit = 0;
    this.models = { default: "", models: [] };
    this.memory = new MemoryPanel(() => { this.choices.show(); this.panel.words(); });
    this.choices = new Choices((id) => id === "effort" && this.memory.get("depth"));
    this.panel = new Panel(this.memory);
    this.uploads = new Uploads((text) => this.complain(text));
    this.sidebar = new Sidebar({
      onOpen: (id) => this.open(id),
      onRemoved: (id) => id === this.conversation && this.fresh(),
    });
    this.handlers = {
      onChange: (turn) => this.changed(turn),
      onOpen: (turn, item) => this.panel.open(turn, item),
      onAsk: (question) => this.ask(question),
      onRemembered: (id) => this.panel.openMemory(id),
    };
  }

  get warming() {
    return this.models.models.filter((model) => model.state === "MODEL_STATE_WARMING").map((model) => model.name);
  }

  get running() { return this.turns.findLast((turn) => !turn.run.over); }

  changed(turn) {
    if (turn.run.conversation && turn === this.turns.at(-1)) this.locate(turn.run.conversation, turn.run.id);
    if (turn === this.turns.at(-1)) this.panel.show(turn);
    if (turn.run.over && turn.stream) {
      turn.stream = null;
      this.sidebar.load();
      // What the question says of the reader is learnt behind the answer.
      setTimeout(() => this.memory.load(), LEARNT_MS);
    }
  }

  locate(conversation, run) {
    this.conversation = this.sidebar.current = conversation;
    const query = new URLSearchParams({ ...(conversation && { c: conversation }), ...(run && { run }) });
    history.replaceState(null, "", `#${query}`);
  }

  add(question, runId) {
    const turn = new Turn(question, runId, this.handlers);
    this.turns.push(turn);
    byId("welcome").hidden = true;
    byId("thread").append(turn.root);
    turn.draw();
    return turn;
  }

  fresh() {
    this.visit += 1;
    for (const turn of this.turns.splice(0)) {
      turn.leave();
      turn.root.remove();
    }
    hideCard();
    this.locate("", "");
    byId("welcome").hidden = false;
    document.body.classList.remove("sidebar-open");
    this.panel.show(null);
    this.sidebar.draw();
    byId("question").focus();
  }

  async ask(question) {
    this.complain("");
    byId("send").disabled = true;
    const { visit } = this;
    try {
      const body = {
        question, conversation_id: this.conversation, model: byId("model").value, mode: byId("mode").value,
        effort: byId("effort").value, window: byId("window").value, table_ids: this.uploads.ids,
      };
      const accepted = await post("/v1/runs", body);
      // A chip or an option asks too; what stands in the composer is then another question.
      if (byId("question").value.trim() === question) byId("question").value = "";
      this.composed();
      this.uploads.clear();
      if (visit !== this.visit) return void this.sidebar.load();
      this.locate(accepted.conversation_id || this.conversation, accepted.run_id);
      const turn = this.add(question, accepted.run_id).follow();
      turn.root.scrollIntoView({ block: "start" });
    } catch (problem) {
      this.complain(problem.culprit ? `${problem.culprit}: ${problem.message}` : problem.message);
    } finally {
      byId("send").disabled = false;
    }
  }

  complain(text) {
    byId("problem").textContent = text;
    byId("problem").hidden = !text;
  }

  // Shows a conversation; each turn's run brings what its answer refers to.
  async open(id) {
    this.fresh();
    const { visit } = this;
    this.locate(id, "");
    this.sidebar.draw();
    try {
      const { turns } = await call(path("conversations", id));
      if (visit !== this.visit) return;
      const shown = turns.map((turn) => [turn, this.add(turn.question, turn.run_id)]);
      for (const [turn, view] of shown) {
        await this.recall(view, turn.answer);
        if (visit !== this.visit) return void view.leave();
      }
      shown.at(-1)?.[1].root.scrollIntoView({ block: "start" });
    } catch (problem) {
      if (visit === this.visit) this.complain(problem.message);
    }
  }

  // A turn from its run's record; without the record, the answer as memory has it.
  async recall(view, answer) {
    try {
      const record = await call(path("runs", view.run.id));
      if (record.running) view.follow();
      else view.load(record);
    } catch {
      Object.assign(view.run, { text: answer, state: "finished" });
      view.draw();
    }
  }

  // After a reload: the conversation's turns, then the run that may still be going on.
  async resume() {
    const place = new URLSearchParams(location.hash.slice(1));
    const [conversation, runId] = [place.get("c"), place.get("run")];
    let { visit } = this;
    if (conversation) {
      const known = await call(path("conversations", conversation)).catch(() => null);
      if (visit !== this.visit) return;
      if (known) {
        const opened = this.open(conversation);
        ({ visit } = this);
        await opened;
      }
      if (visit !== this.visit) return;
      this.complain("");
    }
    if (!runId || this.turns.some((turn) => turn.run.id === runId)) return;
    try {
      const record = await call(path("runs", runId));
      if (visit !== this.visit) return;
      this.locate(conversation ?? "", runId);
      const turn = this.add(record.trajectory.question, runId);
      if (record.running) turn.follow();
      else turn.load(record);
    } catch (problem) {
      this.complain(problem.message);
    }
  }

  async loadModels() {
    try {
      this.models = await call("/v1/models");
      this.showModels();
    } catch (problem) {
      byId("model-label").textContent = problem.message;
    }
    if (!this.models.models.length || this.warming.length) setTimeout(() => this.loadModels(), MODELS_PAUSE_MS);
  }

  // The reader's choice of what becomes of long conversations is kept with the browser.
  windowSetting() {
    const select = byId("window");
    select.value = remembered("window") ?? "";
    select.addEventListener("change", () => remember("window", select.value));
  }

  showModels() {
    const stateOf = ({ state }) =>
      (state === "MODEL_STATE_READY" ? "" : ` (${word(state.replace("MODEL_STATE_", "").toLowerCase())})`);
    const select = byId("model");
    const kept = select.value || this.models.default;
    select.replaceChildren(...this.models.models.map((model) => el("option", {
      value: model.name, selected: model.name === kept, title: model.detail,
    }, `${model.name}${stateOf(model)}`)));
    const chosen = this.models.models.find((model) => model.name === select.value);
    const label = byId("model-label");
    label.textContent = chosen?.engine === "rules" ? word("rules") : select.value;
    label.classList.toggle("rules", chosen?.engine === "rules");
    byId("model-note").textContent = chosen?.engine === "rules" ? `${word("rules")} ·` : "";
    byId("model-warming").hidden = !this.warming.length;
    byId("model-warming").textContent = `${this.warming.join(", ")}: ${word("warming")}`;
  }

  words() {
    translate(document);
    this.choices.show();
    byId("language").textContent = language() === "zh" ? "EN" : "中";
    byId("examples").replaceChildren(...EXAMPLES[language()].map(
      (text) => el("button", { type: "button", class: "example", onclick: () => this.ask(text) }, text),
    ));
    this.showModels();
    this.uploads.draw();
    for (const turn of this.turns) turn.translate();
    this.memory.draw();
    this.panel.key = "";
    this.panel.draw();
    this.sidebar.draw();
  }

  composed() {
    const box = byId("question");
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, 200)}px`;
    const over = [...box.value].length - MAX_QUESTION;
    byId("count").textContent = over > 0 ? `${count(over)} ${word("tooLong")}` : "";
  }

  theme(name) {
    document.documentElement.dataset.theme = name;
    document.dispatchEvent(new Event("fathom:theme"));
  }

  keys(event) {
    const box = byId("question");
    if (event.key === "Escape") {
      hideCard();
      this.running?.stop();
    } else if (event.target !== box) return;
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId("composer").requestSubmit();
    } else if (event.key === "ArrowUp" && !box.value && this.turns.length) {
      event.preventDefault();
      box.value = this.turns.at(-1).run.question;
      this.composed();
    }
  }

  start() {
    document.body.classList.toggle("embed", new URLSearchParams(location.search).get("embed") === "1");
    this.panel.toggle(innerWidth >= 1280 && !document.body.classList.contains("embed"));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => this.theme(remembered("theme") ?? (dark.matches ? "dark" : "light"));
    dark.addEventListener("change", follow);
    follow();
    byId("theme").addEventListener("click", () => {
      remember("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      follow();
    });
    byId("language").addEventListener("click", () => { switchLanguage(); this.words(); announce(language()); });
    byId("panel-toggle").addEventListener("click", () => this.panel.toggle(!document.body.classList.contains("panel-open")));
    byId("sidebar-toggle").addEventListener("click", () => document.body.classList.toggle("sidebar-open"));
    byId("new").addEventListener("click", () => this.fresh());
    this.windowSetting();
    byId("model").addEventListener("change", () => this.showModels());
    this.choices.listen();
    byId("question").addEventListener("input", () => this.composed());
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      const question = byId("question").value.trim();
      if (question && !byId("send").disabled) this.ask(question);
    });
    document.addEventListener("keydown", (event) => this.keys(event));
    byId("thread").addEventListener("scroll", moveCard, { passive: true });
    this.words();
    this.loadModels();
    this.sidebar.load();
    this.memory.load();
    this.resume();
  }
}

new App().start();
