// The choices beside the question: the model, the agent or the fixed pipeline, how much effort, and what becomes of long
// conversations. Each is kept with the browser.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";

import { asProblem } from "../base/api";
import { KEYS, readModels } from "../base/queries";
import { useStore } from "../base/store";
import { remembered, word } from "../base/words";
import type { Model, Models } from "../contract/types";
import { usePage } from "../page/context";
import { useFacts, valueOf } from "../side/facts";

const PAUSE_MS = 3000;
const NO_MODELS: Models = { default: "", models: [], next_page_token: "" };

export interface ModelList extends Models {
  isRules: boolean;
  // Those that are being loaded.
  warming: string[];
  chosen: string;
  problem: string;
}

const isWarming = (model: Model): boolean => model.state === "MODEL_STATE_WARMING";

// The models that can be asked; read again while one is being loaded.
export function useModels(): ModelList {
  const { session } = usePage();
  const { data = NO_MODELS, error } = useQuery({
    queryKey: KEYS.models, queryFn: readModels,
    refetchInterval: ({ state }) => (!state.data?.models.length || state.data.models.some(isWarming) ? PAUSE_MS : false),
  });
  // What is chosen on this page, what the reader has set for new questions, and what the server takes otherwise.
  const chosen = [session.choice.model, remembered("model")].find((wish) => data.models.some(({ name }) => name === wish)) ?? data.default;
  return {
    ...data, chosen, problem: error && !data.models.length ? asProblem(error).message : "",
    isRules: data.models.find(({ name }) => name === chosen)?.engine === "rules",
    warming: data.models.filter(isWarming).map(({ name }) => name),
  };
}

// The model with its state, unless it is ready.
export const nameModel = ({ name, state }: Model): string =>
  (state === "MODEL_STATE_READY" ? name : `${name} (${word(state.replace("MODEL_STATE_", "").toLowerCase())})`);

export function ModelChoice({ models, id = "model" }: { models: ModelList; id?: string }) {
  const { session } = usePage();
  useEffect(() => { session.choice = { ...session.choice, model: models.chosen }; }, [models.chosen, session]);
  return (
    <select id={id} aria-label={word("model")} value={models.chosen} onChange={({ target }) => {
      session.choice = { ...session.choice, model: target.value };
      session.changed();
    }}>
      {models.models.map((model) => <option key={model.name} value={model.name} title={model.detail}>{nameModel(model)}</option>)}
    </select>
  );
}

// The default first.
export const MODES = ["research", "workflow", "auto"];
const EFFORTS = ["standard", "quick", "deep"];
export const WINDOWS = ["", "off", "delete", "summarize", "hybrid"];
const nameOfWindow = (name: string): string => word(`window${name ? name.charAt(0).toUpperCase() + name.slice(1) : "Default"}`);

export function Choices() {
  // What memory knows that the reader prefers is behind what he has chosen on this page.
  const depth = valueOf(useFacts(), "depth");
  return (
    <>
      <KeptChoice id="mode" names={MODES} nameOf={(name) => word(`mode_${name}`)} noteOf={(name) => word(`mode_${name}_note`)} />
      <KeptChoice id="effort" names={EFFORTS} preferred={depth} nameOf={(name) => word(`effort_${name}`)} noteOf={(name) => word(`effort_${name}_note`)} />
      <KeptChoice id="window" names={WINDOWS} nameOf={nameOfWindow} className="wide-only" />
    </>
  );
}

interface KeptProps {
  id: "mode" | "effort" | "window";
  names: string[];
  preferred?: string;
  className?: string;
  nameOf: (name: string) => string;
  noteOf?: (name: string) => string;
}

function KeptChoice({ id, names, preferred = "", className, nameOf, noteOf }: KeptProps) {
  const { session, preferences } = usePage();
  useStore(preferences);
  const value = [preferences.chosen(id), preferred].find((name) => name && names.includes(name)) ?? names[0]!;
  useEffect(() => { session.choice = { ...session.choice, [id]: value }; }, [id, value, session]);
  return (
    <select id={id} className={className} aria-label={word(id)} value={value} onChange={({ target }) => preferences.choose(id, target.value)}>
      {names.map((name) => <option key={name} value={name} title={noteOf?.(name)}>{nameOf(name)}</option>)}
    </select>
  );
}
