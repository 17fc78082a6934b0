// Markdown as a tree of plain nodes. markdown-it reads it, with HTML off, and its tokens become nodes: no HTML is ever
// read or written here, so a model's markup stays text. Links are kept for http(s) and paths of this site only, and a
// picture becomes a link, since loading it would tell a stranger's server who reads what. Pure: tested under Node.
import createMarkdownIt, { type Env, type MarkdownIt, type StateInline, type Token } from "markdown-it";
import cjkFriendly from "markdown-it-cjk-friendly";

// Beyond HTML's own names there are "x-table" around a table that the model has written, "x-cite" and "x-ref".
export interface Branch {
  tag: string;
  children: Node[];
  href?: string;
  title?: string;
  start?: number;
  align?: string;
}

export interface Cite {
  tag: "x-cite";
  number: number;
  children: [];
}

export interface Reference {
  tag: "x-ref";
  kind: "table" | "figure";
  name: string;
  children: [];
}

export type Node = string | Branch | Cite | Reference;

// What stands at the top level, with the lines it was made of.
export interface Block {
  source: string;
  nodes: Node[];
}

const MAX_DEPTH = 24;
const CITES = /\[(\d{1,3}(?:\s*[,，]\s*\d{1,3})*)\](?!\()/y;
const REFERENCE = /\{\{(table|figure):([^{}\n]{1,120})\}\}/y;
const TAGS: Record<string, string> = { s: "del" };

export const isSafeLink = (url: string): boolean =>
  /^https?:\/\/[^\s\\]+$/i.test(url) || /^(?:\/(?![/\\])|#)[^\s\\]*$/.test(url);

export const isReference = (node: Node): node is Reference => typeof node !== "string" && node.tag === "x-ref";
export const isCite = (node: Node): node is Cite => typeof node !== "string" && node.tag === "x-cite";

// A rule for what a pattern finds at the position: `take` pushes tokens for it.
const rule = (pattern: RegExp, take: (state: StateInline, found: RegExpExecArray) => void) =>
  (state: StateInline, silent: boolean): boolean => {
    pattern.lastIndex = state.pos;
    const found = pattern.exec(state.src);
    if (!found || state.pos + found[0].length > state.posMax) return false;
    if (!silent) take(state, found);
    state.pos += found[0].length;
    return true;
  };

const cites = rule(CITES, (state, found) => {
  for (const text of found[1]!.split(/[,，]/)) state.push("cite", "x-cite", 0).meta = { number: Number(text) };
});

const references = rule(REFERENCE, (state, found) => {
  state.push("reference", "x-ref", 0).meta = { kind: found[1], name: found[2]!.trim() };
});

function makeParser(): MarkdownIt {
  const parser = createMarkdownIt({ html: false, linkify: true, maxNesting: MAX_DEPTH });
  // CommonMark leaves **结论：**如此 unread, since no space stands behind it.
  parser.use(cjkFriendly);
  // Only addresses that say so: "Amazon.com" is a company.
  parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
  for (const scheme of ["ftp:", "mailto:", "//"]) parser.linkify.add(scheme, null);
  // What is no safe link is shown as its words; `isSafeLink` decides when the tree is made.
  parser.validateLink = () => true;
  parser.inline.ruler.before("link", "cite", cites);
  parser.inline.ruler.before("link", "reference", references);
  return parser;
}

const parser = makeParser();

const branch = (tag: string, children: Node[], more: Partial<Branch> = {}): Branch => ({ tag, ...more, children });

function linkTo(token: Token, name: string, children: Node[]): Branch {
  const href = String(token.attrGet(name) ?? "");
  const title = token.attrGet("title");
  return isSafeLink(href) ? branch("a", children, { href, ...(title && { title: String(title) }) }) : branch("span", children);
}

function plainText(tokens: Token[]): string {
  return tokens.map((token) => (token.children ? plainText(token.children) : token.type === "softbreak" ? "\n" : token.content)).join("");
}

// A token without an end of its own.
function leaf(token: Token): Node[] {
  switch (token.type) {
    case "inline":
      return grow(token.children ?? []);
    case "softbreak":
      return ["\n"];
    case "code_inline":
      return [branch("code", [token.content])];
    case "fence":
    case "code_block":
      return [branch("pre", [branch("code", [token.content.replace(/\n$/, "")])])];
    case "image":
      return [linkTo(token, "src", [plainText(token.children ?? []) || String(token.attrGet("src"))])];
    case "cite":
      return [{ tag: "x-cite", number: token.meta?.number as number, children: [] }];
    case "reference":
      return [{ tag: "x-ref", kind: token.meta?.kind as Reference["kind"], name: token.meta?.name as string, children: [] }];
    case "hardbreak":
    case "hr":
      return [branch(token.tag, [])];
    default:
      return token.content ? [token.content] : [];
  }
}

// What an opening token and all up to its end make.
function closed(token: Token, children: Node[]): Node[] {
  if (token.hidden) return hoist(children, (words) => words);
  const align = /text-align:\s*(\w+)/.exec(String(token.attrGet("style") ?? ""))?.[1] ?? "";
  const start = token.attrGet("start");
  switch (token.type) {
    case "paragraph_open":
      return hoist(children, (words) => [branch("p", words)]);
    case "heading_open":
      return hoist(children, (words) => [branch(token.tag, words)]);
    case "link_open":
      return [linkTo(token, "href", children)];
    case "table_open":
      return lift(branch("table", children));
    case "th_open":
    case "td_open":
      return [branch(token.tag, children, { align: align === "left" ? "" : align })];
    case "ordered_list_open":
      return [branch("ol", children, { start: start === null ? 1 : Number(start) })];
    default:
      return [branch(TAGS[token.tag] ?? token.tag, children)];
  }
}

// References stand on their own: what stands before and behind one in a line of text is wrapped apart.
function hoist(children: Node[], wrap: (words: Node[]) => Node[]): Node[] {
  if (!children.some(isReference)) return wrap(children);
  const out: Node[] = [];
  let words: Node[] = [];
  const close = (): void => {
    const kept = trim(words);
    if (kept.length) out.push(...wrap(kept));
    words = [];
  };
  for (const child of children) {
    if (!isReference(child)) {
      words.push(child);
      continue;
    }
    close();
    out.push(child);
  }
  // A full stop behind the last one belongs to nothing.
  if (words.length === 1 && typeof words[0] === "string" && /^[.。]\s*$/.test(words[0])) words = [];
  close();
  return out;
}

// A table or a figure has no room in a cell: it stands below the table, and its name in the cell.
function lift(table: Branch): Node[] {
  const found: Node[] = [];
  const named = (nodes: Node[]): Node[] => nodes.map((node) => {
    if (isReference(node)) {
      found.push(node);
      return branch("code", [node.name]);
    }
    return typeof node === "string" || isCite(node) ? node : { ...node, children: named(node.children) };
  });
  return [branch("x-table", [{ ...table, children: named(table.children) }]), ...found];
}

function trim(words: Node[]): Node[] {
  const kept = [...words];
  if (typeof kept[0] === "string") kept[0] = kept[0].trimStart();
  const last = kept.at(-1);
  if (typeof last === "string") kept[kept.length - 1] = last.trimEnd();
  return kept.filter((child) => child !== "");
}

function grow(tokens: Token[]): Node[] {
  const root: Node[] = [];
  const open: { token: Token; children: Node[] }[] = [];
  for (const token of tokens) {
    const place = (): Node[] => open.at(-1)?.children ?? root;
    if (token.nesting === 1) open.push({ token, children: [] });
    else if (token.nesting === 0) place().push(...leaf(token));
    else {
      const last = open.pop()!;
      place().push(...closed(last.token, last.children));
    }
  }
  return joined(root);
}

// Text that the parser gives in pieces, as one.
function joined(nodes: Node[]): Node[] {
  const out: Node[] = [];
  for (const node of nodes) {
    const last = out.at(-1);
    if (typeof node === "string" && typeof last === "string") out[out.length - 1] = last + node;
    else if (typeof node === "string") out.push(node);
    else out.push({ ...node, children: joined(node.children) } as Node);
  }
  return out;
}

// The blocks of a text with the lines each was made of: a block whose source is unchanged need not be redrawn.
export function parse(markdown: string): Block[] {
  const text = markdown.replace(/\r\n?/g, "\n");
  const lines = text.split("\n");
  const env: Env = {};
  const tokens = parser.parse(text, env);
  // Definitions of links may stand anywhere, and change what other blocks say.
  const shared = env.references ? `\n${JSON.stringify(env.references)}` : "";
  const blocks: Block[] = [];
  let first = 0;
  let depth = 0;
  tokens.forEach((token, at) => {
    depth += token.nesting;
    if (depth) return;
    const [from, to] = tokens[first]!.map ?? [0, 0];
    blocks.push({ source: lines.slice(from, to).join("\n").trimEnd() + shared, nodes: grow(tokens.slice(first, at + 1)) });
    first = at + 1;
  });
  return blocks;
}

// A text that is still being written, without a reference or citation whose end is yet to come.
export const settled = (markdown: string): string => markdown.replace(/(?:\{\{?[^{}\n]{0,130}|\[[\d\s,，]{0,20})$/, "");
