// How the reader wants negative numbers: -1.5, or (1.5) as accounts have them. Pure: tested under Node.
export const NEGATIVES = ["minus", "parentheses"] as const;
export type Negatives = (typeof NEGATIVES)[number];

const chosen = { style: "minus" as Negatives };
export const setNegatives = (style: Negatives): void => { chosen.style = style; };

// What an export is asked with.
export const negativesOf = (): { negatives?: Negatives } => (chosen.style === "minus" ? {} : { negatives: chosen.style });

// A number as it is shown; -0.00 has nothing to enclose.
export const enclosed = (shown: string): string => (chosen.style === "parentheses" && /^-.*[1-9]/.test(shown) ? `(${shown.slice(1)})` : shown);
