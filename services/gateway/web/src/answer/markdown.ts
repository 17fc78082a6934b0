// Markdown as a tree of plain nodes: {tag, children, …}. No HTML is ever read or written here, so a
// model's markup stays text; links are kept for http(s) and paths of this site only. Pure: tested under node.
//
// Beyond HTML's own names there are: "x-cite" {number}, "x-ref" {kind, name} and "x-table",
// which the page turns into chips, live components and a flag.

const MAX_DEPTH = 6;
const CITES = /^\[(\d{1,3}(?:\s*[,，]\s*\d{1,3})*)\](?!\()/;
const REFERENCE = /\{\{(table|figure):([^{}\n]{1,120})\}\}/;
const BULLET = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const FENCE = /^\s*(```+|~~~+)\s*([\w+-]*)/;
const RULE = /^\s*(?:-\s*){3,}$|^\s*(?:\*\s*){3,}$|^\s*(?:_\s*){3,}$/;
const DELIMITER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

export const isSafeLink = (url) => /^https?:\/\/[^\s\\]+$/i.test(url) || /^(?:\/(?![/\\])|#)[^\s\\]*$/.test(url);

const node = (tag, children, more = {}) => ({ tag, ...more, children });

function link(label, url, depth) {
  const children = inline(label, depth + 1);
  return isSafeLink(url) ? node("a", children, { href: url }) : node("span", children);
}

// Tried in order at each position that could begin something. Lengths are bounded: no input takes long.
const INLINE = [
  [/^\\([\\`*_{}[\]()#+\-.!|<>~])/, (m) => m[1]],
  [/^(`+)([^`]{1,2000})\1(?!`)/, (m) => node("code", [m[2].trim() || m[2]])],
  [/^!\[([^\]\n]{0,300})\]\(\s*([^)\s]{1,2000})[^)\n]{0,300}\)/, (m, d) => link(m[1] || m[2], m[2], d)],
  [CITES, (m) => m[1].split(/[,，]/).map((text) => node("x-cite", [], { number: Number(text) }))],
  [/^\[([^\]\n]{1,500})\]\(\s*([^)\s]{1,2000})[^)\n]{0,300}\)/, (m, d) => link(m[1], m[2], d)],
  [/^(\*\*|__)(?=\S)([^]{0,1000}?\S)\1/, (m, d) => node("strong", inline(m[2], d + 1))],
  [/^([*_])(?=[^\s*_])([^]{0,1000}?[^\s*_])\1(?![\w*])/, (m, d) => node("em", inline(m[2], d + 1))],
  [/^~~(?=\S)([^]{0,1000}?\S)~~/, (m, d) => node("del", inline(m[1], d + 1))],
  [
    /^https?:\/\/[^\s<>()"'`\\]{1,2000}?(?=[.,;:!?，。；：！？]?(?:[\s<>()"'`\\]|$))/,
    (m) => node("a", [m[0]], { href: m[0] }),
  ],
  [/^(?: {2,}|\\)\n/, () => node("br", [])],
];

export function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) return [text];
  const out = [];
  let plain = "";
  let at = 0;
  while (at < text.length) {
    const ahead = text.slice(at);
    const skipped = /^[^\\`!*_[~h \n]+/.exec(ahead)?.[0].length ?? 0;
    const inWord = at > 0 && /\w/.test(text[at - 1]);
    const found = skipped ? null : match(ahead, inWord, depth);
    if (!found) {
      plain += ahead.slice(0, skipped || 1);
      at += skipped || 1;
      continue;
    }
    if (plain) out.push(plain);
    plain = "";
    out.push(...[found.made].flat());
    at += found.length;
  }
  if (plain) out.push(plain);
  return out;
}

function match(ahead, inWord, depth) {
  if (inWord && (ahead[0] === "_" || ahead[0] === "h")) return null;
  for (const [pattern, make] of INLINE) {
    const found = pattern.exec(ahead);
    if (found) return { made: make(found, depth), length: found[0].length };
  }
  return null;
}

const cellsOf = (line) =>
  line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function table(lines) {
  const align = cellsOf(lines[1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : ""));
  const row = (line, tag) =>
    node("tr", cellsOf(line).map((cell, i) => node(tag, inline(cell), { align: align[i] ?? "" })));
  const body = lines.slice(2).map((line) => row(line, "td"));
  const made = node("table", [node("thead", [row(lines[0], "th")]), node("tbody", body)]);
  return node("x-table", [made]);
}

// Text with references in it: paragraphs and references in turn.
function paragraphs(text) {
  const found = REFERENCE.exec(text);
  if (!found) return text.trim() ? [node("p", inline(text.trim()))] : [];
  const before = text.slice(0, found.index);
  const after = text.slice(found.index + found[0].length);
  const reference = node("x-ref", [], { kind: found[1], name: found[2].trim() });
  return [...paragraphs(before), reference, ...paragraphs(after.replace(/^[.。]\s*$/, ""))];
}

function list(lines, depth) {
  const [, indent, mark] = BULLET.exec(lines[0]);
  const items = [];
  for (const line of lines) {
    const found = BULLET.exec(line);
    if (found && found[1].length <= indent.length + 1) items.push([line.slice(found[0].length)]);
    else items.at(-1).push(line.replace(new RegExp(`^\\s{0,${indent.length + 4}}`), ""));
  }
  const children = items.map((item) => {
    const inside = blocks(item, depth + 1).map((block) => block.nodes).flat();
    return node("li", inside[0]?.tag === "p" ? [...inside[0].children, ...inside.slice(1)] : inside);
  });
  return /\d/.test(mark) ? node("ol", children, { start: Number.parseInt(mark, 10) }) : node("ul", children);
}

const starts = (line, next) =>
  /^#{1,6}\s/.test(line) || FENCE.test(line) || /^\s*>/.test(line) || BULLET.test(line) || RULE.test(line) ||
  (line.includes("|") && DELIMITER.test(next ?? ""));

// How many lines the block that begins at `at` has, and its nodes.
function block(lines, at, depth) {
  const line = lines[at];
  const run = (test, from = at) => {
    let end = from;
    while (end < lines.length && test(lines[end], end)) end += 1;
    return end;
  };
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
  if (heading) return [at + 1, [node(`h${heading[1].length}`, inline(heading[2]))]];
  const fence = FENCE.exec(line);
  if (fence) {
    const end = run((candidate) => !candidate.trim().startsWith(fence[1]), at + 1);
    return [Math.min(end + 1, lines.length), [node("pre", [node("code", [lines.slice(at + 1, end).join("\n")])])]];
  }
  if (RULE.test(line)) return [at + 1, [node("hr", [])]];
  if (depth < MAX_DEPTH && /^\s*>/.test(line)) {
    const end = run((candidate) => /^\s*>/.test(candidate));
    const inside = blocks(lines.slice(at, end).map((quoted) => quoted.replace(/^\s*>\s?/, "")), depth + 1);
    return [end, [node("blockquote", inside.map((found) => found.nodes).flat())]];
  }
  if (depth < MAX_DEPTH && BULLET.test(line)) {
    const goesOn = (text, i) => /^\s/.test(text) || !starts(text, lines[i + 1]);
    const end = run((text, i) => BULLET.test(text) || (text.trim() && goesOn(text, i)));
    return [end, [list(lines.slice(at, end), depth)]];
  }
  if (line.includes("|") && DELIMITER.test(lines[at + 1] ?? "")) {
    const end = run((candidate) => candidate.includes("|"), at + 2);
    return [end, [table(lines.slice(at, end))]];
  }
  const end = run((candidate, i) => candidate.trim() && (i === at || !starts(candidate, lines[i + 1])));
  return [end, paragraphs(lines.slice(at, end).join("\n"))];
}

function blocks(lines, depth) {
  const out = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [end, nodes] = block(lines, at, depth);
    out.push({ source: lines.slice(at, end).join("\n"), nodes });
    at = end;
  }
  return out;
}

// The blocks of a text with the lines each was made of: a block whose source is unchanged need not be redrawn.
export const parse = (markdown) => blocks(markdown.replace(/\r\n?/g, "\n").split("\n"), 0);

// A text that is still being written, without a reference or citation whose end is yet to come.
export const settled = (markdown) => markdown.replace(/(?:\{\{?[^{}\n]{0,130}|\[[\d\s,，]{0,20})$/, "");
