// The words of the staff's area; where it has none of its own, those of the page.
import { language, word } from "../base/words";
import { STAFF_WORDS } from "./dictionary";

export const say = (key: string): string => (STAFF_WORDS[language()] as Record<string, string>)[key] ?? word(key);
