// The grade of one answer against another: five buttons or the keys 1 to 5, and what decided it.
import { type FormEvent, useState } from "react";

import { say } from "../words";
import type { Desk } from "./desk";
import { GRADES, type Grade, type Verdict } from "./items";
import { sendOnEnter, useKeys } from "./keys";
import { Problems } from "./problems";
import { ReasonField } from "./reason-field";

export function GradeForm({ desk }: { desk: Desk }) {
  const [grade, setGrade] = useState<Grade | null>(null);
  const [reason, setReason] = useState("");
  const choose = (chosen: Grade): void => {
    setGrade(chosen);
    // The focus follows the choice, so that Enter decides and the arrows go on from it.
    document.getElementById(`grade-${chosen}`)?.focus();
  };
  useKeys({ ...Object.fromEntries(GRADES.map((one, place) => [String(place + 1), () => choose(one)])), s: () => void desk.skip() });
  const side = (decision: Verdict): void => void desk.decide({ decision, reason: reason.trim() });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (grade !== null) void desk.decide({ decision: "grade", grade, reason: reason.trim() });
  };
  return (
    <form className="decision" onSubmit={send}>
      <fieldset className="grades">
        <legend>{say("gradeTitle")}</legend>
        {GRADES.map((one, place) => (
          <label key={one} className={grade === one ? "chosen" : undefined}>
            <input id={`grade-${one}`} type="radio" name="grade" value={one} checked={grade === one} onChange={() => setGrade(one)} />
            <kbd>{place + 1}</kbd>{say(`grade_${one}`)}
          </label>
        ))}
      </fieldset>
      <ReasonField value={reason} onChange={setReason} onKeyDown={sendOnEnter} />
      <Problems problem={desk.problem} />
      <div className="choice">
        <button type="submit" className="primary" disabled={grade === null} aria-busy={desk.isBusy || undefined}>{say("decide")}</button>
        {desk.kind === "recheck" && <button type="button" onClick={() => side("accept")}>{say("judgeHolds")}</button>}
        {desk.kind === "recheck" && <button type="button" onClick={() => side("reject")}>{say("personHolds")}</button>}
        <button type="button" className="quiet" onClick={() => void desk.skip()}>{say("skip")}</button>
        <span className="dim keys">{say("keysGrade")}</span>
      </div>
    </form>
  );
}
