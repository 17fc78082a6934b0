// Runs the examples of CommonMark through the page's parser: {passed, raw, failed: [[number, wanted, got]]}. Examples
// whose HTML comes straight from the text are counted as `raw`: on the page HTML stays text. What the page does with
// links and pictures on purpose is done to the expected HTML as well.
const { isSafeLink, parse } = await load("answer/markdown");
const { tests } = (await import("commonmark-spec")).default;

const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => SIGNS[sign]);
const unescaped = (text) => Object.entries(SIGNS).reverse().reduce((all, [sign, name]) => all.replaceAll(name, sign), text);

function write(node) {
  if (typeof node === "string") return escaped(node);
  if (node.tag === "x-cite") return `[${node.number}]`;
  const inner = node.children.map(write).join("");
  if (node.tag === "span" || node.tag === "x-table") return inner;
  const attributes = [["href", node.href], ["title", node.title], ["start", node.start === 1 ? undefined : node.start]]
    .filter(([, value]) => value !== undefined).map(([name, value]) => ` ${name}="${escaped(String(value))}"`).join("");
  return ["br", "hr"].includes(node.tag) ? `<${node.tag} />` : `<${node.tag}${attributes}>${inner}</${node.tag}>`;
}

// Pictures become links, and unsafe links their words; inner links first.
function restrict(html) {
  const picture = (_, source, words, title) => `<a href="${source}"${title ? ` title="${title}"` : ""}>${words || source}</a>`;
  let text = html.replace(/<img src="([^"]*)" alt="([^"]*)"(?: title="([^"]*)")? \/>/g, picture);
  const link = /<a href="([^"]*)"((?: title="[^"]*")?)>((?:(?!<a )[^])*?)<\/a>/;
  for (let found = link.exec(text); found; found = link.exec(text)) {
    const [all, address, title, inner] = found;
    const kept = isSafeLink(unescaped(address)) ? `<A href="${address}"${title}>${inner}</A>` : inner;
    text = text.slice(0, found.index) + kept + text.slice(found.index + all.length);
  }
  return text.replaceAll("<A ", "<a ").replaceAll("</A>", "</a>");
}

const BLOCK = "(?:p|h\\d|ul|ol|li|blockquote|pre|hr)\\b";
// Line ends that say nothing in HTML, and the class that names the language of code.
const bare = (html) => html
  .replace(/<code class="[^"]*">/g, "<code>").replaceAll("<br />\n", "<br />")
  .replace(new RegExp(`\\s*\\n\\s*(?=</?${BLOCK})`, "g"), "")
  .replace(new RegExp(`(</?(?!pre)${BLOCK}[^>]*>)\\s*\\n`, "g"), "$1").trim();

const isRaw = ({ markdown, html }) => (markdown.match(/<[a-zA-Z/!?][^>]*>?/g) ?? []).some((tag) => html.includes(tag));

const failed = [];
let [passed, raw] = [0, 0];
for (const test of tests) {
  const markdown = test.markdown.replaceAll("→", "\t");
  const html = test.html.replaceAll("→", "\t");
  if (isRaw(test)) {
    raw += 1;
    continue;
  }
  const wanted = bare(restrict(html.replaceAll("\n</code></pre>", "</code></pre>")));
  const got = bare(parse(markdown).flatMap((block) => block.nodes).map(write).join(""));
  if (wanted === got) passed += 1;
  else failed.push([test.number, wanted, got]);
}
print({ passed, raw, failed });
