// The line at an answer: what of memory its run was given.
import { day } from "../base/format";
import { word } from "../base/words";
import type { Remembered } from "../contract/types";
import { usePage } from "../page/context";
import { saidOf } from "./facts";

export function RememberedLine({ remembered }: { remembered: Remembered | null }) {
  const { facts = [], stances = [], applied = [] } = remembered ?? {};
  if (!facts.length && !stances.length) return null;
  const used = new Set(applied);
  return (
    <p className="gaps used">
      <span className="dim">{`${word("usedFromMemory")}${word("colon")}`}</span>
      {facts.map((fact) => <Chip key={fact.id} id={fact.id} text={saidOf(fact)} title={fact.text} isApplied={used.has(fact.id)} />)}
      {stances.map((stance) => <Chip key={stance.id} id={stance.id} text={stance.view} title={day(stance.create_time)} isApplied={false} />)}
    </p>
  );
}

function Chip({ id, text, title, isApplied }: { id: string; text: string; title: string; isApplied: boolean }) {
  const { layout } = usePage();
  return (
    <button type="button" className={`chip slot ${isApplied ? "filled" : ""}`} title={`${title} · ${word("correctMemory")}`} data-remembered={id}
      onClick={() => layout.show("memory", `[data-fact="${CSS.escape(id)}"]`)}>{text}</button>
  );
}
