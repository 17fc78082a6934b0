// Elements without HTML strings: text is always a text node, so nothing a model writes can become markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// A number with four significant digits, large ones with separators.
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  return size !== 0 && size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

export function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

export const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const seriesColours = () => cssColour("--series").split(/\s+/);
