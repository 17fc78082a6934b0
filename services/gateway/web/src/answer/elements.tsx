// Markdown's own elements, made of the tree's branches: known names only, links that open beside the page.
import { type ReactNode, createElement } from "react";

import type { Branch } from "./markdown";

const PLAIN = new Set<string>([
  "p", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
  "br", "table", "thead", "tbody", "tr", "th", "td", "span",
]);
const EMPTY = new Set<string>(["hr", "br"]);

export function drawElement(node: Branch, children: ReactNode[]): ReactNode {
  if (node.tag === "x-table") return <figure className="typed"><div className="scroll" tabIndex={0}>{children}</div></figure>;
  if (node.tag === "a") {
    const isAway = /^https?:/i.test(node.href ?? "");
    return <a href={node.href} title={node.title} rel="noopener noreferrer" target={isAway ? "_blank" : undefined}>{children}</a>;
  }
  const tag = PLAIN.has(node.tag) ? node.tag : "span";
  const attributes = {
    start: node.start, className: node.align ? `align-${node.align}` : undefined, ...(tag === "pre" && { tabIndex: 0 }),
  };
  return EMPTY.has(tag) ? createElement(tag) : createElement(tag, attributes, ...children);
}
