// The tree of a framework, which folds, in the reader's language.
import { language, word } from "../base/words";
import type { Framework, FrameworkNode } from "../contract/types";

interface Branch {
  node: FrameworkNode;
  children: Branch[];
}

export const nameOf = (thing: Framework | FrameworkNode): string => (language() === "zh" ? thing.name_zh || thing.name : thing.name);

export function Tree({ nodes }: { nodes: FrameworkNode[] }) {
  return <ul>{grow(nodes).map((branch, place) => <Leaf key={place} branch={branch} />)}</ul>;
}

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
