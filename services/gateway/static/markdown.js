// A small Markdown renderer. Everything is escaped first, so no HTML of a model ever gets through;
// links are kept only for http(s) and paths of this site. Pure functions, tested under node.

export const escape = (text) =>
  text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);

const safeLink = (url) => /^(https?:\/\/|\/(?!\/))/i.test(url);

// Inline marks of escaped text. Code spans are set aside, so that nothing inside them is marked.
export function inline(text) {
  const spans = [];
  let out = escape(text).replace(/`([^`]+)`/g, (_, code) => `\u0000${spans.push(`<code>${code}</code>`) - 1}\u0000`);
  out = out
    .replace(/\[([^\]]+)\]\(([^)\s]+)\)/g, (whole, label, url) =>
      safeLink(url.replace(/&amp;/g, "&")) ? `<a href="${url}" rel="noopener noreferrer" target="_blank">${label}</a>` : label)
    .replace(/\[(\d{1,3})\](?!\()/g, '<button type="button" class="cite" data-cite="$1">$1</button>')
    .replace(/\*\*([^*]+)\*\*/g, "<strong>$1</strong>")
    .replace(/(^|[^*\w])\*([^*\s][^*]*)\*(?!\*)/g, "$1<em>$2</em>");
  return out.replace(/\u0000(\d+)\u0000/g, (_, index) => spans[Number(index)]);
}

function list(lines, ordered) {
  const items = lines.map((line) => `<li>${inline(line.replace(/^\s*(?:[-*+]|\d+[.)])\s+/, ""))}</li>`);
  const tag = ordered ? "ol" : "ul";
  return `<${tag}>${items.join("")}</${tag}>`;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => inline(cell.trim()));
  const head = cells(lines[0]).map((cell) => `<th>${cell}</th>`).join("");
  const body = lines.slice(2).map((line) => `<tr>${cells(line).map((cell) => `<td>${cell}</td>`).join("")}</tr>`);
  return `<table><thead><tr>${head}</tr></thead><tbody>${body.join("")}</tbody></table>`;
}

const BULLET = /^\s*[-*+]\s+/;
const NUMBER = /^\s*\d+[.)]\s+/;
const REFERENCE = /^\{\{(table|figure):([A-Za-z0-9_]+)\}\}$/;
const special = (line) => /^#{1,6}\s|^```|^>\s?/.test(line) || BULLET.test(line) || NUMBER.test(line) || REFERENCE.test(line.trim());

// Blocks of a text as HTML; references become empty elements that the page fills.
export function render(markdown) {
  const lines = markdown.replace(/\r\n?/g, "\n").replace(/\u0000/g, "")
    .replace(/\s*(\{\{(?:table|figure):[A-Za-z0-9_]+\}\})\s*/g, "\n\n$1\n\n").split("\n");
  const out = [];
  let i = 0;
  const take = (test) => { const from = i; while (i < lines.length && test(lines[i])) i += 1; return lines.slice(from, i); };
  while (i < lines.length) {
    const line = lines[i];
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const reference = REFERENCE.exec(line.trim());
    if (!line.trim()) i += 1;
    else if (reference) { out.push(`<div data-${reference[1]}="${reference[2]}"></div>`); i += 1; }
    else if (heading) { const n = Math.min(heading[1].length, 3); out.push(`<h${n}>${inline(heading[2])}</h${n}>`); i += 1; }
    else if (line.startsWith("```")) {
      i += 1;
      const code = take((l) => !l.startsWith("```"));
      i += 1;
      out.push(`<pre><code>${escape(code.join("\n"))}</code></pre>`);
    } else if (BULLET.test(line)) out.push(list(take((l) => BULLET.test(l)), false));
    else if (NUMBER.test(line)) out.push(list(take((l) => NUMBER.test(l)), true));
    else if (line.startsWith(">")) out.push(`<blockquote>${inline(take((l) => l.startsWith(">")).map((l) => l.replace(/^>\s?/, "")).join(" "))}</blockquote>`);
    else if (line.includes("|") && /^[\s|:-]+$/.test(lines[i + 1] ?? "") && (lines[i + 1] ?? "").includes("-")) out.push(table(take((l) => l.includes("|"))));
    else { const from = i; i += 1; while (i < lines.length && lines[i].trim() && !special(lines[i])) i += 1; out.push(`<p>${inline(lines.slice(from, i).join(" "))}</p>`); }
  }
  return out.join("\n");
}
