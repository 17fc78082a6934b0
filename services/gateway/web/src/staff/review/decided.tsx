// What became of an item: the decision, what the judge had said, and the way back or on.
import { useEffect, useRef } from "react";

import type { ReviewDecision, ReviewItem, ReviewMachine } from "../../contract/types";
import { say } from "../words";
import type { Desk } from "./desk";
import { Difference } from "./difference";
import { isGraded } from "./items";
import { useKeys } from "./keys";
import { Problems } from "./problems";

export const gradeOf = (grade: number | null | undefined): string => (grade === null || grade === undefined ? "" : say(`grade_${grade}`));

export function Decided({ desk, item, decision }: { desk: Desk; item: ReviewItem; decision: ReviewDecision }) {
  const next = useRef<HTMLButtonElement>(null);
  useKeys({ n: () => void desk.next(), u: () => void desk.undo() });
  useEffect(() => next.current?.focus(), []);
  return (
    <section className="decision decided" aria-labelledby="decided-title">
      <h2 id="decided-title">{say("decidedTitle")}</h2>
      <dl>
        <div><dt>{say(isGraded(item.kind) && decision.decision === "grade" ? "yourGrade" : "yourDecision")}</dt>
          <dd><strong>{gradeOf(decision.grade) || say(`decision_${decision.decision}`)}</strong>{decision.reason && <q>{decision.reason}</q>}</dd></div>
        <JudgementRow machine={item.machine} isGrade={isGraded(item.kind)} />
      </dl>
      <Distance mine={decision.grade} judge={item.machine?.grade} />
      {decision.decision === "edit" && <Difference before={decision.before} after={decision.after} />}
      <Problems problem={desk.problem} />
      <div className="choice">
        <button ref={next} type="button" className="primary" onClick={() => void desk.next()}>{say("next")}</button>
        <button type="button" onClick={() => void desk.undo()} aria-busy={desk.isBusy || undefined}>{say("undo")}</button>
        <span className="dim keys">{say("keysDecided")}</span>
      </div>
    </section>
  );
}

// What the judge said, and what a person said before.
export function JudgementRow({ machine, isGrade }: { machine: ReviewMachine | null; isGrade: boolean }) {
  const said = machine && (gradeOf(machine.grade) || machine.verdict);
  return (
    <div><dt>{say(isGrade ? "judgeGrade" : "judgeVerdict")}</dt>
      <dd>{said ? <strong>{said}</strong> : <span className="dim">{say("noJudge")}</span>}{machine?.by && <span className="dim">{machine.by}</span>}{machine?.reason && <q>{machine.reason}</q>}</dd></div>
  );
}

function Distance({ mine, judge }: { mine: number | null | undefined; judge: number | null | undefined }) {
  if (typeof mine !== "number" || typeof judge !== "number") return null;
  const apart = Math.abs(mine - judge);
  if (!apart) return <p className="ok">{say("agreed")}</p>;
  return <p className={apart > 1 ? "empty" : "dim"}>{`${apart} ${say(apart === 1 ? "oneApart" : "apart")}`}</p>;
}
