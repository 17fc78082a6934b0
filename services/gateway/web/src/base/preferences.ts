// How the reader wants the page: its language, its theme and the form of negative numbers are kept with the browser, and so are
// the choices beside the question; which colours rise and fall have, and what stands before decimals, are facts about the
// reader, which memory keeps.
import { setDecimals } from "./format";
import { NEGATIVES, type Negatives, setNegatives } from "./negatives";
import { Store } from "./store";
import { type Language, language, remember, remembered, setLanguage } from "./words";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
export type Rise = "green_up" | "red_up";

const asNegatives = (name: string | null): Negatives => NEGATIVES.find((style) => style === name) ?? "minus";
const asTheme = (name: string | null): Theme => THEMES.find((theme) => theme === name) ?? "system";

export class Preferences extends Store {
  readonly #dark = matchMedia("(prefers-color-scheme: dark)");
  #theme = asTheme(remembered("theme"));
  #negatives = asNegatives(remembered("negatives"));
  #colours = "";
  // What was chosen beside the question: as it was when this page first asked, whatever other pages choose since.
  readonly #chosen = new Map<string, string>();

  constructor() {
    super();
    this.#dark.addEventListener("change", () => this.#apply());
    setNegatives(this.#negatives);
    this.#apply();
  }

  get language(): Language { return language(); }
  get theme(): Theme { return this.#theme; }
  get negatives(): Negatives { return this.#negatives; }
  get isDark(): boolean { return this.#theme === "system" ? this.#dark.matches : this.#theme === "dark"; }

  // Red rises in China and falls elsewhere, unless the reader has said otherwise.
  get rise(): Rise {
    if (this.#colours === "red_up" || this.#colours === "green_up") return this.#colours;
    return this.language === "zh" ? "red_up" : "green_up";
  }

  speak(name: Language): void {
    setLanguage(name);
    this.#apply();
  }

  paint(theme: Theme): void {
    this.#theme = theme;
    remember("theme", theme);
    this.#apply();
  }

  enclose(style: Negatives): void {
    this.#negatives = style;
    setNegatives(style);
    remember("negatives", style);
    this.changed();
  }

  chosen(name: string): string {
    const value = this.#chosen.get(name) ?? remembered(name) ?? "";
    this.#chosen.set(name, value);
    return value;
  }

  choose(name: string, value: string): void {
    this.#chosen.set(name, value);
    remember(name, value);
    this.changed();
  }

  // Takes what memory knows of the reader.
  follow(facts: { colours: string; decimals: string }): void {
    this.#colours = facts.colours;
    setDecimals(facts.decimals);
    this.#apply();
  }

  #apply(): void {
    const root = document.documentElement;
    root.lang = this.language;
    root.dataset.theme = this.isDark ? "dark" : "light";
    root.dataset.rise = this.rise;
    this.changed();
  }
}
