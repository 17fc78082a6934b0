// What the reader can set: how the page looks, with this browser; how answers are given, with memory; which model new
// questions go to. And what they can draw on.
import { useQueryClient } from "@tanstack/react-query";
import { Tabs } from "radix-ui";
import { useState } from "react";

import { asProblem } from "../base/api";
import { NEGATIVES } from "../base/negatives";
import { THEMES, type Theme } from "../base/preferences";
import { useStore } from "../base/store";
import { type Language, word } from "../base/words";
import { MODES } from "../composer/choices";
import { ModelSettings } from "../settings/models";
import { SourceSettings } from "../settings/sources";
import { StanceSettings } from "../settings/stances";
import { CHOICES, prefer, useFacts, valueOf } from "../side/facts";
import { Choice } from "./choice";
import { usePage } from "./context";
import { addressOf, useMayReview } from "./route";

const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };
// Preferences that memory keeps, in the order of the sheet.
const REMEMBERED = ["colours", "units", "decimals", "language", "depth", "memory"];

const TABS = ["general", "models", "sources", "stances"] as const;

export function Settings() {
  return (
    <Tabs.Root defaultValue="general" className="settings">
      <Tabs.List aria-label={word("settings")}>{TABS.map((tab) => <Tabs.Trigger key={tab} value={tab}>{word(`settings_${tab}`)}</Tabs.Trigger>)}</Tabs.List>
      <Tabs.Content value="general"><General /></Tabs.Content>
      <Tabs.Content value="models"><ModelSettings /></Tabs.Content>
      <Tabs.Content value="sources"><SourceSettings /></Tabs.Content>
      <Tabs.Content value="stances"><StanceSettings /></Tabs.Content>
    </Tabs.Root>
  );
}

function General() {
  const { preferences, layout } = usePage();
  useStore(preferences);
  return (
    <>
      <section aria-label={word("pageSettings")}>
        <h3>{word("pageSettings")}</h3>
        <Choice label={word("pageLanguage")} value={preferences.language} names={Object.keys(LANGUAGES)} nameOf={(name) => LANGUAGES[name as Language]}
          onChoose={(name) => preferences.speak(name as Language)} />
        <Choice label={word("themeSetting")} value={preferences.theme} names={[...THEMES]} nameOf={(name) => word(`theme_${name}`)}
          onChoose={(name) => preferences.paint(name as Theme)} />
        <Choice label={word("negativesSetting")} value={preferences.negatives} names={NEGATIVES} nameOf={(name) => word(`negatives_${name}`)}
          onChoose={(name) => preferences.enclose(name)} />
        <Choice label={word("defaultMode")} value={MODES.find((name) => name === preferences.chosen("mode")) ?? MODES[0]!} names={MODES}
          nameOf={(name) => word(`mode_${name}`)} onChoose={(name) => preferences.choose("mode", name)} />
        <Choice label={word("enterKey")} value={preferences.chosen("enter") === "line" ? "line" : "send"} names={["send", "line"]}
          nameOf={(name) => word(`enter_${name}`)} onChoose={(name) => preferences.choose("enter", name)} />
      </section>
      <section aria-label={word("answerSettings")}>
        <h3>{word("answerSettings")}</h3>
        <p className="dim">{word("memoryNote")}</p>
        <RememberedFields />
        <button type="button" className="quiet" onClick={() => { layout.open(""); layout.show("memory"); }}>{word("allFacts")}</button>
      </section>
      <Registries />
    </>
  );
}

// Where the analysis frameworks are read, and for staff where they and the prompts are written.
function Registries() {
  const { layout } = usePage();
  const mayReview = useMayReview();
  // The staff's area is on this page, below the dialog.
  const leave = (): void => layout.open("");
  return (
    <section aria-label={word("registries")}>
      <h3>{word("registries")}</h3>
      <p className="choice"><a href="frameworks">{word("frameworks")}</a>
        {mayReview && <a href={addressOf("frameworks")} onClick={leave}>{word("editFrameworks")}</a>}
        {mayReview && <a href={addressOf("prompts")} onClick={leave}>{word("editPrompts")}</a>}</p>
    </section>
  );
}

function RememberedFields() {
  const facts = useFacts();
  const queries = useQueryClient();
  const [problem, setProblem] = useState("");
  const choose = (kind: string, value: string): void => {
    prefer(queries, facts, kind, value).then(() => setProblem(""), (thrown: unknown) => setProblem(asProblem(thrown).message));
  };
  return (
    <>
      {REMEMBERED.map((kind) => (
        <Choice key={kind} label={word(`fact_${kind}`)} value={valueOf(facts, kind)} names={["", ...CHOICES[kind]!]}
          nameOf={(name) => word(name ? `value_${name}` : "notSet")} onChoose={(value) => choose(kind, value)} />
      ))}
      {problem && <p className="chip bad" role="alert">{problem}</p>}
    </>
  );
}
