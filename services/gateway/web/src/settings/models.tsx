// The models of this Fathom: which one new questions go to, what each is, what it costs, and how it stands.
import { useState } from "react";

import { count } from "../base/format";
import { remember, remembered, word } from "../base/words";
import { type ModelList, useModels } from "../composer/choices";
import type { Model } from "../contract/types";
import { Choice } from "../page/choice";
import { usePage } from "../page/context";
import { Chip, type Tone } from "./parts";

const TONES: Record<string, Tone> = { ready: "good", warming: "warn", paused: "warn", failed: "bad", idle: "dim" };

export function ModelSettings() {
  const models = useModels();
  if (!models.models.length) {
    return <p role="status" className={models.problem ? "chip bad" : "dim"}>{models.problem || word("readingList")}</p>;
  }
  return (
    <>
      <DefaultModel models={models} />
      <p className="dim note">{word("defaultModelNote")}</p>
      <Roles models={models} />
      <ul className="things">{models.models.map((model) => <Entry key={model.name} model={model} isDefault={model.name === models.default} />)}</ul>
    </>
  );
}

// "" follows whatever this Fathom has as its own default.
function DefaultModel({ models }: { models: ModelList }) {
  const { session } = usePage();
  const [kept, setKept] = useState(() => remembered("model") ?? "");
  const known = models.models.some(({ name }) => name === kept) ? kept : "";
  const choose = (name: string): void => {
    remember("model", name);
    setKept(name);
    session.choice = { ...session.choice, model: name || models.default };
    session.changed();
  };
  return (
    <Choice label={word("defaultModel")} value={known} names={["", ...models.models.map(({ name }) => name)]}
      nameOf={(name) => name || word("serverDefault").replace("{name}", models.default)} onChoose={choose} />
  );
}

// The tasks that Fathom gives to models, in the order in which a question meets them.
const ROLES = ["planner", "coder", "writer", "judge"];

// Which model each task goes to; one that the operator has given to none goes to the default.
function Roles({ models }: { models: ModelList }) {
  const title = word("modelsByRole");
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul className="things roles">{ROLES.map((role) => {
        const given = models.models.find(({ roles }) => roles.includes(role));
        const model = given ?? models.models.find(({ name }) => name === models.default);
        return (
          <li key={role} data-role={role} className="thing-head">
            <strong>{word(`task_${role}`)}</strong><span className="spacer" />
            {!given && <span className="dim">{word("isDefault")}</span>}<span>{model?.name ?? models.default}</span>
            {model && <State model={model} />}
          </li>
        );
      })}</ul>
      <p className="dim note">{word("modelsByRoleNote")} <code>policy.roles</code></p>
    </section>
  );
}

const stateOf = (model: Model): string => model.state.replace("MODEL_STATE_", "").toLowerCase();

function State({ model }: { model: Model }) {
  const state = stateOf(model);
  return <Chip tone={TONES[state] ?? "dim"}>{word(`model_${state}`)}</Chip>;
}

function Entry({ model, isDefault }: { model: Model; isDefault: boolean }) {
  const facts = [
    // A family that nobody knows says less than the engine does.
    model.family && model.family !== "unknown" ? model.family : model.engine,
    model.window_tokens > 0 && word("contextWindow").replace("{count}", count(model.window_tokens)),
    describePrice(model),
    model.credential === "CREDENTIAL_SET" && word("keySet"),
  ].filter(Boolean).join(" · ");
  return (
    <li data-model={model.name}>
      <div className="thing-head">
        <strong>{model.name}</strong>
        {isDefault && <Chip tone="dim">{word("isDefault")}</Chip>}
        {model.roles.map((role) => <span key={role} className="tag">{word(`role_${role}`)}</span>)}
        <span className="spacer" />
        {model.credential === "CREDENTIAL_MISSING" && <Chip tone="bad">{word("keyMissing")}</Chip>}
        <State model={model} />
      </div>
      <p className="dim">{facts}</p>
      {stateOf(model) === "failed" && <p className="failed">{model.detail}</p>}
    </li>
  );
}

// Per million tokens, in the currency that the server's budgets have.
function describePrice({ prices }: Model): string {
  if (!prices) return "";
  const cached = prices.cached_prompt === undefined ? "" : ` (${word("cachedPrice")} ${count(prices.cached_prompt)})`;
  return `${word("promptPrice")} ${count(prices.prompt)}${cached}, ${word("sampledPrice")} ${count(prices.completion)} ${word("perMillion")}`;
}
