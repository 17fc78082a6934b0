// A text in Markdown that belongs to no run of this page: what it cites is shown as it is written.
import { type ReactNode, memo } from "react";

import { drawElement } from "../answer/elements";
import { type Node as Tree, isCite, isReference, parse } from "../answer/markdown";

export const Prose = memo(function Prose({ text, lang }: { text: string; lang?: string | undefined }) {
  return <div className="answer" lang={lang}>{parse(text).map((block, place) => block.nodes.map((node, at) => <Piece key={`${place} ${at}`} node={node} />))}</div>;
});

function Piece({ node }: { node: Tree }): ReactNode {
  if (typeof node === "string") return node;
  if (isReference(node)) return <span className="chip">{`${node.kind} ${node.name}`}</span>;
  if (isCite(node)) return <span className="cite">{node.number}</span>;
  return drawElement(node, node.children.map((child, place) => <Piece key={place} node={child} />));
}
