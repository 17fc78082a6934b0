// What is being picked at a place of the text: a sign at the beginning of a word, and what is typed behind it.
// Pure: tested under node.

export type Sign = "/" | "@" | "#";

export interface Trigger {
  sign: Sign;
  query: string;
  // Where the sign and what follows it stand in the text.
  start: number;
  end: number;
}

// Names may have spaces, but nobody goes on looking for one this long.
const LONGEST = 40;
// A word of Latin letters has its sign at its beginning; Chinese has no spaces between words.
const BEFORE = /[\s(（，,。；;：:？?！!、\p{Script=Han}]/u;

export function findTrigger(text: string, caret: number): Trigger | null {
  for (let start = caret - 1; start >= Math.max(0, caret - LONGEST - 1); start -= 1) {
    const sign = text[start];
    if (sign === "\n") return null;
    if (sign !== "/" && sign !== "@" && sign !== "#") continue;
    const query = text.slice(start + 1, caret);
    // A command is the first thing in the text; "1/2", "a@b" and "C#" are no signs, nor is one followed by a space.
    const isBegun = sign === "/" ? start === 0 : start === 0 || BEFORE.test(text[start - 1] ?? "");
    return isBegun && !/^\s/.test(query) && !/\s\s|[.?!。？！]/.test(query) ? { sign, query, start, end: caret } : null;
  }
  return null;
}

// The text with what was picked in the place of the sign, and where the caret is then.
export function complete(text: string, trigger: Trigger, words: string): { text: string; caret: number } {
  const after = text.slice(trigger.end);
  const isSpaced = /^[\s，。、；：？！,.;:?!)）]/.test(after);
  const inserted = words && !isSpaced ? `${words} ` : words;
  return { text: text.slice(0, trigger.start) + inserted + after, caret: trigger.start + inserted.length };
}
