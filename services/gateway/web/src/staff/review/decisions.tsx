// What was decided, newest first: by whom, when, and what an edit has changed.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { asProblem } from "../../base/api";
import { language } from "../../base/words";
import type { ReviewDecision, ReviewItem } from "../../contract/types";
import { Choice } from "../../page/choice";
import { say } from "../words";
import { gradeOf } from "./decided";
import { Difference } from "./difference";
import { KINDS, type Kind, readDecisions } from "./items";
import { Problems } from "./problems";

const ALL: readonly (Kind | "")[] = ["", ...KINDS];
const timeOf = (text: string): string => new Date(text).toLocaleString(language(), { dateStyle: "medium", timeStyle: "short" });

export function Decisions() {
  const [kind, setKind] = useState<Kind | "">("");
  const list = useInfiniteQuery({
    queryKey: ["review", "decisions", kind], queryFn: ({ pageParam }) => readDecisions(kind, pageParam),
    initialPageParam: "", getNextPageParam: (page) => page.next_page_token || undefined,
  });
  const items = list.data?.pages.flatMap((page) => page.decisions) ?? [];
  return (
    <>
      <h2>{say("decisions")}</h2>
      <p className="dim">{say("decisionsNote")}</p>
      <Choice label={say("kindFilter")} value={kind} names={ALL} nameOf={(name) => say(name ? `kind_${name}` : "allKinds")} onChoose={setKind} />
      <Problems problem={list.error ? asProblem(list.error) : null} />
      {list.isPending && <p className="dim" role="status">{say("loading")}</p>}
      {list.data && !items.length && <p className="dim" role="status">{say("noDecisions")}</p>}
      <ul className="decisions">{items.map((item) => item.decision && <Row key={`${item.id} ${item.version}`} item={item} decision={item.decision} />)}</ul>
      {list.hasNextPage && <button type="button" onClick={() => void list.fetchNextPage()} aria-busy={list.isFetchingNextPage || undefined}>{say("older")}</button>}
    </>
  );
}

function Row({ item, decision }: { item: ReviewItem; decision: ReviewDecision }) {
  const owners = item.texts.map(({ label, owner }) => `${label}: ${owner || say("unknownOwner")}`).join(" · ");
  return (
    <li data-item={item.id}>
      <div className="kind"><span>{say(`kind_${item.kind}`)}</span><span>{timeOf(decision.decided_at)}</span><span>{decision.reviewer}</span></div>
      <strong lang={item.language || undefined}>{item.question}</strong>
      <div><span className={`verdict ${decision.decision}`}>{gradeOf(decision.grade) || say(`decision_${decision.decision}`)}</span>{decision.reason && <q>{decision.reason}</q>}</div>
      {item.texts.length > 1 && <div className="dim">{owners}</div>}
      {decision.decision === "edit" && <details><summary>{say("showDifference")}</summary><Difference before={decision.before} after={decision.after} /></details>}
    </li>
  );
}
