// What the reader can set: how the page looks, with this browser; how answers are given, with memory.
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { asProblem } from "../base/api";
import { THEMES, type Theme } from "../base/preferences";
import { useStore } from "../base/store";
import { type Language, word } from "../base/words";
import { ModelChoice, useModels } from "../composer/choices";
import { CHOICES, prefer, useFacts, valueOf } from "../side/facts";
import { Choice } from "./choice";
import { usePage } from "./context";
import { DialogSheet } from "./sheet";

const LANGUAGES: Record<Language, string> = { en: "English", zh: "中文" };
// Preferences that memory keeps, in the order of the sheet.
const REMEMBERED = ["colours", "units", "decimals", "language", "depth", "memory"];

export function Settings() {
  return <DialogSheet name="settings" title={word("settings")}><Fields /></DialogSheet>;
}

function Fields() {
  const { preferences, layout } = usePage();
  useStore(preferences);
  const models = useModels();
  return (
    <div className="settings">
      <section aria-label={word("pageSettings")}>
        <h3>{word("pageSettings")}</h3>
        <Choice label={word("pageLanguage")} value={preferences.language} names={Object.keys(LANGUAGES)} nameOf={(name) => LANGUAGES[name as Language]}
          onChoose={(name) => preferences.speak(name as Language)} />
        <Choice label={word("themeSetting")} value={preferences.theme} names={[...THEMES]} nameOf={(name) => word(`theme_${name}`)}
          onChoose={(name) => preferences.paint(name as Theme)} />
        <div className="field"><label htmlFor="settings-model">{word("model")}</label><ModelChoice models={models} id="settings-model" /></div>
      </section>
      <section aria-label={word("answerSettings")}>
        <h3>{word("answerSettings")}</h3>
        <p className="dim">{word("memoryNote")}</p>
        <RememberedFields />
        <button type="button" className="quiet" onClick={() => { layout.open(""); layout.show("memory"); }}>{word("allFacts")}</button>
      </section>
    </div>
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
