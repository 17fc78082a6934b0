// The analysis frameworks as researchers wrote them: each topic's tree, in the reader's language.
import { QueryClientProvider, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";

import { asProblem } from "./base/api";
import { Preferences } from "./base/preferences";
import { makeQueryClient, readFrameworkTrees } from "./base/queries";
import { useStore } from "./base/store";
import { word } from "./base/words";
import { Tree, nameOf } from "./library/tree";

function Library({ preferences }: { preferences: Preferences }) {
  useStore(preferences);
  const { data, error } = useQuery({ queryKey: ["frameworks"], queryFn: readFrameworkTrees });
  const other = preferences.language === "zh" ? "en" : "zh";
  useEffect(() => { document.title = `Fathom · ${word("frameworks")}`; });
  return (
    <>
      <header>
        <a href="./"><img src="static/icon.svg" alt="" width={20} height={20} /> <strong className="brand">Fathom</strong></a>
        <span className="spacer" />
        <button id="language" type="button" className="quiet" lang={other} title={word("language")} onClick={() => preferences.speak(other)}>
          {other === "zh" ? "中文" : "English"}
        </button>
      </header>
      <main>
        <h1>{word("frameworks")}</h1>
        {data?.frameworks.map((one) => (
          <details key={one.topic} id={one.topic} className="framework">
            <summary><strong>{nameOf(one)}</strong>{` ${one.about ?? ""}`}</summary>
            <Tree nodes={one.nodes} />
          </details>
        ))}
        <p role="status">{error ? asProblem(error).message : ""}</p>
      </main>
    </>
  );
}

createRoot(document.getElementById("root")!).render(
  <QueryClientProvider client={makeQueryClient()}><Library preferences={new Preferences()} /></QueryClientProvider>,
);
