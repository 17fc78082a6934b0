// One queue: the item that is to be decided, or why there is none.
import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";

import { useStore } from "../../base/store";
import type { ReviewItem } from "../../contract/types";
import { addressOf } from "../../page/route";
import { say } from "../words";
import { Decided, JudgementRow, gradeOf } from "./decided";
import { Desk } from "./desk";
import { GradeForm } from "./grade-form";
import { type Kind, QUEUES_KEY } from "./items";
import { Problems } from "./problems";
import { History, Texts } from "./texts";
import { VerdictForm } from "./verdict-form";

export function DeskView({ kind }: { kind: Kind }) {
  const queries = useQueryClient();
  const [desk] = useState(() => new Desk(kind, () => void queries.invalidateQueries({ queryKey: QUEUES_KEY })));
  useStore(desk);
  useEffect(() => void desk.next(), [desk]);
  if (desk.state === "reading") return <p className="dim" role="status">{say("loading")}</p>;
  if (desk.state === "empty") {
    return <Notice title={say("noItems")} note={say("noItemsNote")}><button type="button" onClick={() => void desk.next()}>{say("lookAgain")}</button><a href={addressOf("")}>{say("overview")}</a></Notice>;
  }
  if (desk.state === "failed") {
    return <Notice title={say("failedRead")} note=""><Problems problem={desk.problem} /><button type="button" onClick={() => void desk.next()}>{say("retry")}</button></Notice>;
  }
  if (desk.state === "lost") {
    return <Notice title={say("lost")} note={say("lostNote")}><Problems problem={desk.problem} /><button type="button" className="primary" onClick={() => void desk.next()}>{say("next")}</button></Notice>;
  }
  return <ItemView key={`${desk.item!.id} ${desk.item!.version}`} desk={desk} item={desk.item!} />;
}

// Instead of an item; the focus is given to its first button, since the form that had it is gone.
function Notice({ title, note, children }: { title: string; note: string; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) place.current?.querySelector("button")?.focus();
  }, []);
  return <div ref={place} className="notice"><h2>{title}</h2>{note && <p className="dim">{note}</p>}<div className="choice">{children}</div></div>;
}

function ItemView({ desk, item }: { desk: Desk; item: ReviewItem }) {
  const question = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (!item.decision) question.current?.focus();
  }, [item]);
  return (
    <article className="item" data-item={item.id}>
      <h2 ref={question} className="asked" tabIndex={-1} lang={item.language || undefined}><span className="sr-only">{`${say("question")}: `}</span>{item.question}</h2>
      <History item={item} />
      {!item.decision && <Judged item={item} />}
      <Texts item={item} />
      <Form desk={desk} item={item} />
    </article>
  );
}

function Form({ desk, item }: { desk: Desk; item: ReviewItem }) {
  if (item.decision) return <Decided desk={desk} item={item} decision={item.decision} />;
  if (item.kind === "comparison") return <GradeForm desk={desk} />;
  return item.kind === "recheck" ? <GradeForm desk={desk} /> : <VerdictForm desk={desk} item={item} />;
}

// What a person and the judge have said before, where that may be known: never of a comparison that is open.
function Judged({ item }: { item: ReviewItem }) {
  if (!item.machine && !item.previous) return null;
  return (
    <dl className="judged">
      {item.previous && <div><dt>{say("previous")}</dt><dd><strong>{gradeOf(item.previous.grade)}</strong>{item.previous.reason && <q>{item.previous.reason}</q>}</dd></div>}
      {item.machine && <JudgementRow machine={item.machine} isGrade={item.kind === "recheck"} />}
    </dl>
  );
}
