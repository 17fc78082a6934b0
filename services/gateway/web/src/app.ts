// The page: wires composer, thread, conversations and panel. Where the reader is stands in the address:
// #c=<conversation>&run=<run>, so that a reload in mid-run goes on.
import { asProblem, call, path, post } from "./base/api";
import { Choices } from "./composer/choices";
import { ModelChoice } from "./composer/models";
import { hideCard, moveCard } from "./answer/cite";
import { announce, byId, el } from "./base/dom";
import { count } from "./base/format";
import { MemoryPanel } from "./side/memory";
import { Panel } from "./side/panel";
import { Sidebar } from "./side/sidebar";
import type { Accepted, RunRecord, Turns } from "./contract/types";
import { Turn, type TurnHandlers } from "./turn/turn";
import { Uploads } from "./composer/uploads";
import { EXAMPLES } from "./base/dictionary";
import { language, remember, remembered, switchLanguage, translate, word } from "./base/words";

const MAX_QUESTION = 8000;
const LEARNT_MS = 2000;

const chosen = (id: string): string => byId<HTMLSelectElement>(id).value;

class App {
  readonly memory: MemoryPanel;
  readonly choices: Choices;
  readonly panel: Panel;
  readonly uploads: Uploads;
  readonly sidebar: Sidebar;
  readonly handlers: TurnHandlers;
  readonly box = byId<HTMLTextAreaElement>("question");
  readonly send = byId<HTMLButtonElement>("send");
  conversation = "";
  turns: Turn[] = [];
  // Counts what the reader turned to: an answer that comes after he turned elsewhere is not shown.
  visit = 0;
  readonly models = new ModelChoice();

  constructor() {
    this.memory = new MemoryPanel(() => { this.choices.show(); this.panel.words(); });
    this.choices = new Choices((id) => (id === "effort" ? this.memory.get("depth") : ""));
    this.panel = new Panel(this.memory);
    this.uploads = new Uploads((text) => this.complain(text));
    this.sidebar = new Sidebar({
      onOpen: (id) => void this.open(id),
      onRemoved: (id) => { if (id === this.conversation) this.fresh(); },
    });
    this.handlers = {
      onChange: (turn) => this.changed(turn),
      onOpen: (turn, item) => this.panel.open(turn, item),
      onAsk: (question) => void this.ask(question),
      onRemembered: (id) => void this.panel.openMemory(id),
    };
  }

  get running(): Turn | undefined { return this.turns.findLast((turn) => !turn.run.over); }

  changed(turn: Turn): void {
    if (turn.run.conversation && turn === this.turns.at(-1)) this.locate(turn.run.conversation, turn.run.id);
    if (turn === this.turns.at(-1)) this.panel.show(turn);
    if (turn.run.over && turn.stream) {
      turn.stream = null;
      this.sidebar.ended(turn.run.conversation);
      void this.sidebar.load();
      // What the question says of the reader is learnt behind the answer.
      setTimeout(() => void this.memory.load(), LEARNT_MS);
    }
  }

  locate(conversation: string, run: string): void {
    this.conversation = this.sidebar.current = conversation;
    const query = new URLSearchParams({ ...(conversation && { c: conversation }), ...(run && { run }) });
    history.replaceState(null, "", `#${query}`);
  }

  add(question: string, runId: string): Turn {
    const turn = new Turn(question, runId, this.handlers);
    this.turns.push(turn);
    byId("welcome").hidden = true;
    byId("thread").append(turn.root);
    turn.draw();
    return turn;
  }

  fresh(): void {
    this.visit += 1;
    for (const turn of this.turns.splice(0)) {
      turn.leave();
      turn.root.remove();
    }
    hideCard();
    this.uploads.clear();
    this.locate("", "");
    byId("welcome").hidden = false;
    document.body.classList.remove("sidebar-open");
    this.panel.show(null);
    this.sidebar.draw();
    this.box.focus();
  }

  async ask(question: string): Promise<void> {
    this.complain("");
    this.send.disabled = true;
    const { visit } = this;
    try {
      await this.uploads.settled;
      if (visit !== this.visit) return;
      const body = {
        question, conversation_id: this.conversation, model: chosen("model"), mode: chosen("mode"),
        effort: chosen("effort"), window: chosen("window"), table_ids: this.uploads.ids, corpora: this.uploads.corpora,
      };
      const accepted = await post<Accepted>(path("runs"), body);
      // A chip or an option asks too; what stands in the composer is then another question.
      if (this.box.value.trim() === question) this.box.value = "";
      this.composed();
      this.sidebar.began(accepted.conversation_id, question, accepted.run_id);
      if (visit !== this.visit) return void this.sidebar.load();
      this.locate(accepted.conversation_id || this.conversation, accepted.run_id);
      const turn = this.add(question, accepted.run_id).follow();
      turn.root.scrollIntoView({ block: "start" });
    } catch (thrown) {
      const problem = asProblem(thrown);
      this.complain(problem.culprit ? `${problem.culprit}: ${problem.message}` : problem.message);
    } finally {
      this.send.disabled = false;
    }
  }

  complain(text: string): void {
    byId("problem").textContent = text;
    byId("problem").hidden = !text;
  }

  // Shows a conversation; each turn's run brings what its answer refers to.
  async open(id: string): Promise<void> {
    this.fresh();
    const { visit } = this;
    this.locate(id, "");
    this.sidebar.draw();
    try {
      const first = this.sidebar.running(id);
      if (first) return await this.recall(this.add(first.title, first.run), "");
      const turns = await this.turnsOf(id);
      if (visit !== this.visit) return;
      const shown = turns.map((turn): [typeof turn, Turn] => [turn, this.add(turn.question, turn.run_id)]);
      for (const [turn, view] of shown) {
        await this.recall(view, turn.answer);
        if (visit !== this.visit) return void view.leave();
      }
      shown.at(-1)?.[1].root.scrollIntoView({ block: "start" });
    } catch (thrown) {
      if (visit === this.visit) this.complain(asProblem(thrown).message);
    }
  }

  // All turns of a conversation, page by page.
  async turnsOf(id: string): Promise<Turns["turns"]> {
    const turns: Turns["turns"] = [];
    let next = "";
    do {
      const query = new URLSearchParams({ page_token: next });
      const found = await call<Turns>(`${path("conversations", id)}?${query}`);
      turns.push(...found.turns);
      next = found.next_page_token;
    } while (next);
    return turns;
  }

  // A turn from its run's record; without the record, the answer as memory has it.
  async recall(view: Turn, answer: string): Promise<void> {
    try {
      const record = await call<RunRecord>(path("runs", view.run.id));
      if (record.running) view.follow();
      else view.load(record);
    } catch {
      Object.assign(view.run, { text: answer, state: "finished" });
      view.draw();
    }
  }

  // After a reload: the conversation's turns, then the run that may still be going on.
  async resume(): Promise<void> {
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
      const record = await call<RunRecord>(path("runs", runId));
      if (visit !== this.visit) return;
      this.locate(conversation ?? "", runId);
      const turn = this.add(record.trajectory?.question ?? "", runId);
      if (record.running) turn.follow();
      else turn.load(record);
    } catch (thrown) {
      this.complain(asProblem(thrown).message);
    }
  }

  // The reader's choice of what becomes of long conversations is kept with the browser.
  windowSetting(): void {
    const select = byId<HTMLSelectElement>("window");
    select.value = remembered("window") ?? "";
    select.addEventListener("change", () => remember("window", select.value));
  }

  words(): void {
    translate(document);
    this.choices.show();
    byId("language").textContent = language() === "zh" ? "EN" : "中";
    byId("examples").replaceChildren(...EXAMPLES[language()].map(
      (text) => el("button", { type: "button", class: "example", onclick: () => void this.ask(text) }, text),
    ));
    this.models.show();
    this.uploads.draw();
    for (const turn of this.turns) turn.translate();
    this.memory.draw();
    this.panel.redraw();
    this.sidebar.draw();
  }

  composed(): void {
    const { box } = this;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, 200)}px`;
    const over = [...box.value].length - MAX_QUESTION;
    byId("count").textContent = over > 0 ? `${count(over)} ${word("tooLong")}` : "";
  }

  theme(name: string): void {
    document.documentElement.dataset.theme = name;
    document.dispatchEvent(new Event("fathom:theme"));
  }

  keys(event: KeyboardEvent): void {
    const { box } = this;
    if (event.key === "Escape") {
      // What lies over the text goes first: only the next one stops the run.
      if (!hideCard() && !this.panel.leave()) this.running?.stop();
    } else if (event.target !== box) return;
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId<HTMLFormElement>("composer").requestSubmit();
    } else if (event.key === "ArrowUp" && !box.value && this.turns.length) {
      event.preventDefault();
      box.value = this.turns.at(-1)?.run.question ?? "";
      this.composed();
    }
  }

  start(): void {
    document.body.classList.toggle("embed", new URLSearchParams(location.search).get("embed") === "1");
    this.panel.toggle(innerWidth >= 1280 && !document.body.classList.contains("embed"));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = (): void => this.theme(remembered("theme") ?? (dark.matches ? "dark" : "light"));
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
    this.choices.listen();
    this.box.addEventListener("input", () => this.composed());
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      const question = this.box.value.trim();
      if (question && !this.send.disabled) void this.ask(question);
    });
    document.addEventListener("keydown", (event) => this.keys(event));
    byId("thread").addEventListener("scroll", moveCard, { passive: true });
    this.words();
    void this.models.load();
    void this.sidebar.load();
    void this.memory.load();
    void this.resume();
  }
}

new App().start();
