// The analysis frameworks as researchers wrote them: each topic's tree, in the reader's language.
import { QueryClientProvider, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";

import { asProblem, call, path } from "./base/api";
import { Preferences } from "./base/preferences";
import { makeQueryClient } from "./base/queries";
import { useStore } from "./base/store";
import { language, word } from "./base/words";
import type { Framework, FrameworkNode, Frameworks } from "./contract/types";

interface Branch {
  node: FrameworkNode;
  children: Branch[];
}

const nameOf = (thing: Framework | FrameworkNode): string => (language() === "zh" ? thing.name_zh || thing.name : thing.name);

// Nodes come in order, each before its children; how long its path is says how deep it stands.
function grow(nodes: FrameworkNode[]): Branch[] {
  const root: { children: Branch[] } = { children: [] };
  const above: { children: Branch[] }[] = [root];
  for (const node of nodes) {
    const depth = node.path.length;
    const branch: Branch = { node, children: [] };
    (above[depth - 1] ?? root).children.push(branch);
    above[depth] = branch;
    above.length = depth + 1;
  }
  return root.children;
}

function Leaf({ branch: { node, children } }: { branch: Branch }) {
  const known = node.indicators.length > 0 && <span className="names" title={word("indicators")}>{` ${node.indicators.join(", ")}`}</span>;
  if (!children.length) return <li title={node.hint || undefined}>{nameOf(node)}{known}</li>;
  return (
    <li>
      <details open={node.path.length < 2}>
        <summary title={node.hint || undefined}>{nameOf(node)}{known}</summary>
        <ul>{children.map((child, place) => <Leaf key={place} branch={child} />)}</ul>
      </details>
    </li>
  );
}

function Library({ preferences }: { preferences: Preferences }) {
  useStore(preferences);
  const { data, error } = useQuery({ queryKey: ["frameworks"], queryFn: () => call<Frameworks>(path("frameworks")) });
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
            <ul>{grow(one.nodes).map((branch, place) => <Leaf key={place} branch={branch} />)}</ul>
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
