// The analysis frameworks as researchers wrote them: each topic's tree, in the reader's language.
import { call, path } from "./base/api";
import { byId, el } from "./base/dom";
import { language, switchLanguage, translate, word } from "./base/words";

const named = (thing) => (language() === "zh" ? thing.name_zh || thing.name : thing.name);

// Nodes come in order, each before its children; how long its path is says how deep it stands.
export function grown(nodes) {
  const root = { children: [] };
  const above = [root];
  for (const node of nodes) {
    const depth = node.path.length;
    const branch = { node, children: [] };
    (above[depth - 1] ?? root).children.push(branch);
    above[depth] = branch;
    above.length = depth + 1;
  }
  return root.children;
}

function drawn({ node, children }) {
  const ids = node.indicators ?? [];
  const known = ids.length ? el("span", { class: "names", title: word("indicators") }, ` ${ids.join(", ")}`) : null;
  if (!children.length) return el("li", { title: node.hint || undefined }, named(node), known);
  return el("details", { open: node.path.length < 2 },
    el("summary", { title: node.hint || undefined }, named(node), known), el("ul", {}, children.map(drawn)));
}

function show(frameworks) {
  document.title = `Fathom · ${word("frameworks")}`;
  byId("frameworks").replaceChildren(...frameworks.map((one) => el("details", { id: one.topic, class: "framework" },
    el("summary", {}, el("strong", {}, named(one)), ` ${one.about ?? ""}`), el("ul", {}, grown(one.nodes ?? []).map(drawn)))));
}

async function start() {
  translate(document);
  byId("language").textContent = language() === "zh" ? "EN" : "中";
  try {
    const { frameworks } = await call(path("frameworks"));
    show(frameworks);
    byId("language").addEventListener("click", () => {
      switchLanguage();
      translate(document);
      byId("language").textContent = language() === "zh" ? "EN" : "中";
      show(frameworks);
    });
  } catch (problem) {
    byId("live").textContent = problem.message;
  }
}

if (typeof document !== "undefined") start();
