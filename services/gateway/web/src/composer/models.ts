// The models that can be asked: which one answers, and which ones are still being loaded.
import { asProblem, call, path } from "../base/api";
import { byId, el } from "../base/dom";
import { word } from "../base/words";
import type { Model, Models } from "../contract/types";

const PAUSE_MS = 3000;

const stateOf = ({ state }: Model): string =>
  (state === "MODEL_STATE_READY" ? "" : ` (${word(state.replace("MODEL_STATE_", "").toLowerCase())})`);

export class ModelChoice {
  #models: Models = { default: "", models: [], next_page_token: "" };
  readonly #select = byId<HTMLSelectElement>("model");

  constructor() {
    this.#select.addEventListener("change", () => this.show());
  }

  get #warming(): string[] {
    return this.#models.models.filter((model) => model.state === "MODEL_STATE_WARMING").map((model) => model.name);
  }

  // Reads the list, and again while a model is being loaded.
  async load(): Promise<void> {
    try {
      this.#models = await call<Models>(path("models"));
      this.show();
    } catch (thrown) {
      byId("model-label").textContent = asProblem(thrown).message;
    }
    if (!this.#models.models.length || this.#warming.length) setTimeout(() => void this.load(), PAUSE_MS);
  }

  show(): void {
    const { models } = this.#models;
    const kept = this.#select.value || this.#models.default;
    this.#select.replaceChildren(...models.map((model) => el("option", {
      value: model.name, selected: model.name === kept, title: model.detail,
    }, `${model.name}${stateOf(model)}`)));
    const isRules = models.find((model) => model.name === this.#select.value)?.engine === "rules";
    const label = byId("model-label");
    label.textContent = isRules ? word("rules") : this.#select.value;
    label.classList.toggle("rules", isRules);
    byId("model-note").textContent = isRules ? `${word("rules")} ·` : "";
    byId("model-warming").hidden = !this.#warming.length;
    byId("model-warming").textContent = `${this.#warming.join(", ")}: ${word("warming")}`;
  }
}
