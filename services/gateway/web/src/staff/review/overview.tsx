// The queues, with what waits in each.
import type { ReviewQueues } from "../../contract/types";
import { addressOf } from "../../page/route";
import { count } from "../../base/format";
import { say } from "../words";
import { isGraded } from "./items";

export function Overview({ queues }: { queues: ReviewQueues }) {
  return (
    <>
      <h2>{say("queues")}</h2>
      <p className="dim">{say("queuesNote")}</p>
      <ul className="queues">{queues.queues.map(({ kind, open, decided }) => (
        <li key={kind} data-queue={kind}>
          <a href={addressOf(kind)} className={open ? "waiting" : undefined}>
            <strong>{say(`kind_${kind}`)}</strong>
            <span className="counts"><b>{count(open)}</b>{` ${say("open")} · ${count(decided)} ${say("decided")}`}</span>
            <Progress open={open} decided={decided} />
            <span className="dim">{say(`about_${kind}`)}</span>
            {isGraded(kind) && <span className="sr-only">{say("keysGrade")}</span>}
          </a>
        </li>
      ))}</ul>
    </>
  );
}

function Progress({ open, decided }: { open: number; decided: number }) {
  return <progress max={Math.max(1, open + decided)} value={decided} aria-hidden="true" />;
}
