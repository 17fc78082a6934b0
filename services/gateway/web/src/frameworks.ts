// The analysis frameworks as researchers wrote them: each topic's tree, in the reader's language.
import { asProblem, call, path } from "./base/api";
import { byId, el } from "./base/dom";
import type { Framework, FrameworkNode, Frameworks } from "./contract/types";
import { language, switchLanguage, translate, word } from "./base/words";

interface Branch {
  node: FrameworkNode;
  children: Branch[];
}

const named = (thing: Framework | FrameworkNode): string => (language() === "zh" ? thing.name_zh || thing.name : thing.name);

// Nodes come in order, each before its children; how long its path is says how deep it stands.
export function grown(nodes: FrameworkNode[]): Branch[] {
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

function drawn({ node, children }: Branch): HTMLElement {
  const ids = node.indicators;
  const known = ids.length ? el("span", { class: "names", title: word("indicators") }, ` ${ids.join(", ")}`) : null;
  if (!children.length) return el("li", { title: node.hint || undefined }, named(node), known);
  return el("details", { open: node.path.length < 2 },
    el("summary", { title: node.hint || undefined }, named(node), known), el("ul", {}, children.map(drawn)));
}

function show(frameworks: Framework[]): void {
  document.title = `Fathom · ${word("frameworks")}`;
  byId("frameworks").replaceChildren(...frameworks.map((one) => el("details", { id: one.topic, class: "framework" },
    el("summary", {}, el("strong", {}, named(one)), ` ${one.about ?? ""}`), el("ul", {}, grown(one.nodes).map(drawn)))));
}

async function start(): Promise<void> {
  translate(document);
  byId("language").textContent = language() === "zh" ? "EN" : "中";
  try {
    const { frameworks } = await call<Frameworks>(path("frameworks"));
    show(frameworks);
    byId("language").addEventListener("click", () => {
      switchLanguage();
      translate(document);
      byId("language").textContent = language() === "zh" ? "EN" : "中";
      show(frameworks);
    });
  } catch (thrown) {
    byId("live").textContent = asProblem(thrown).message;
  }
}

void start();
