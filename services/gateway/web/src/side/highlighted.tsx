// Code in colours: a tree of spans from a kept library, whose classes the sheet of styles knows. No HTML is written.
import { createLowlight } from "lowlight";
import python from "highlight.js/lib/languages/python";
import sql from "highlight.js/lib/languages/sql";
import type { ReactNode } from "react";

import type { CodeLanguage } from "./printed";

const library = createLowlight({ python, sql });
type Node = ReturnType<typeof library.highlight>["children"][number];

function draw(node: Node, place: number): ReactNode {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return null;
  return <span key={place} className={(node.properties.className as string[]).join(" ")}>{(node.children as Node[]).map(draw)}</span>;
}

export const Highlighted = ({ text, language }: { text: string; language: CodeLanguage }): ReactNode => library.highlight(language, text).children.map(draw);
