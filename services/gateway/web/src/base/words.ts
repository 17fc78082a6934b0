// Which language is spoken, its words, and settings that the browser keeps.
import { WORDS } from "./dictionary";

export type Language = "en" | "zh";
const chosen: { language: Language } = { language: firstLanguage() };

function firstLanguage(): Language {
  const kept = remembered("language") || navigator.language;
  return kept.startsWith("zh") ? "zh" : "en";
}

export const language = (): Language => chosen.language;
// Some keys are composed of what the contract says, so that any text may be asked for.
export const word = (key: string): string => (WORDS[chosen.language] as Record<string, string>)[key] ?? key;
// The form of a word or sentence that goes with a number; the dictionary has "rows" for most and "rows_one" where a
// language says it otherwise of one.
export function plural(key: string, number: number): string {
  const form = `${key}_${new Intl.PluralRules(chosen.language).select(number)}`;
  return word(form in WORDS[chosen.language] ? form : key);
}
export const counted = (number: number, key: string): string => `${number} ${plural(key, number)}`;

export function setLanguage(name: Language): void {
  chosen.language = name;
  remember("language", name);
}

// Storage may be closed to an embedded page; a setting then lasts as long as the page.
export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(`fathom.${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(`fathom.${key}`, value);
  } catch {
    // see above
  }
}
