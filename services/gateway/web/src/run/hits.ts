// What the result of a call says: one JSON line for programs, then text for reading. Pure: tested under node.

export interface Hit {
  id: string;
  title: string;
  time: string;
  summary: string;
  // File and page, or the house of a report and its rating; "" where the call did not say.
  place: string;
  house: string;
  rating: string;
  corpus: string;
}

const FIELDS = ["id", "title", "time", "summary", "place", "house", "rating", "corpus"] as const;

// Servers of others answer as they like: whatever is no text is shown as one.
const textOf = (value: unknown): string => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));

function toHit(found: unknown): Hit {
  const given = (typeof found === "object" && found !== null ? found : { title: found }) as Record<string, unknown>;
  return Object.fromEntries(FIELDS.map((name) => [name, textOf(given[name])])) as unknown as Hit;
}

export function readResult(content: string): { hits: Hit[]; text: string } {
  const [head = "", ...rest] = content.split("\n");
  const text = rest.join("\n").trim();
  try {
    const { hits, error } = JSON.parse(head) as { hits?: unknown; error?: unknown };
    if (Array.isArray(hits) && hits.length) return { hits: hits.map(toHit), text: "" };
    return { hits: [], text: [textOf(error), text].filter(Boolean).join("\n\n") || head };
  } catch {
    return { hits: [], text: content };
  }
}
