// Markdown as HTML for the clipboard, so that Word or a mail takes headings and tables as such. Elements of known names
// and text alone are made: whatever a model has written stays text.
import { type Node as Tree, isCite, isReference, isSafeLink, parse } from "./markdown";

const KNOWN = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr", "br",
  "table", "thead", "tbody", "tr", "th", "td"]);

export function asHtml(markdown: string): string {
  // A document of its own: nothing of it is loaded or drawn.
  const { body } = document.implementation.createHTMLDocument("");
  append(body, parse(markdown).flatMap(({ nodes }) => nodes));
  return new XMLSerializer().serializeToString(body);
}

function append(place: Element, nodes: Tree[]): void {
  for (const node of nodes) {
    if (typeof node === "string") place.append(node);
    else if (isCite(node)) place.append(`[${node.number}]`);
    else if (isReference(node)) place.append(node.name);
    else append(makeElement(place, node.tag, node), node.children);
  }
}

// The element that takes the children: that of the parent where the tag has none of its own.
function makeElement(place: Element, tag: string, { href, start, align }: { href?: string; start?: number; align?: string }): Element {
  const isLink = tag === "a" && href !== undefined && isSafeLink(href);
  if (!isLink && !KNOWN.has(tag)) return place;
  const made = place.ownerDocument.createElement(tag);
  if (isLink) made.setAttribute("href", href);
  if (start !== undefined) made.setAttribute("start", String(start));
  // Word draws no lines otherwise, and reads no style sheet.
  if (tag === "table") made.setAttribute("border", "1");
  if (align) made.setAttribute("align", align);
  place.append(made);
  return made;
}
