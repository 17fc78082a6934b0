// What the lists of the settings have in common.
import type { ReactNode } from "react";

export type Tone = "good" | "warn" | "bad" | "dim";

export function Chip({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`chip ${tone}`}>{children}</span>;
}
