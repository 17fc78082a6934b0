// One line above the conversation while the gateway is away, and the question that waits for it.
import { useLayoutEffect, useRef } from "react";

import { timeOf } from "../base/format";
import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "../page/context";

export function OfflineBanner() {
  const { connection, preferences } = usePage();
  useStore(connection);
  useStore(preferences);
  // The place is there before its words are, since screen readers speak what changes.
  return (
    <div id="offline" role="status">
      {connection.since && (
        <p><span className="dot" aria-hidden /><span><strong>{word("offlineSince").replace("{time}", timeOf(connection.since))}</strong> {word("offlineNote")}</span></p>
      )}
    </div>
  );
}

export function WaitingQuestion() {
  const { outbox } = usePage();
  useStore(outbox);
  return <div id="waiting-question" role="status">{outbox.waiting && <Waiting question={outbox.waiting} onTakeBack={() => outbox.takeBack()} />}</div>;
}

function Waiting({ question, onTakeBack }: { question: string; onTakeBack: () => void }) {
  const place = useRef<HTMLParagraphElement>(null);
  // It leaves by itself; the focus of whoever was at its button goes on to the question.
  useLayoutEffect(() => {
    const line = place.current;
    return () => { if (line?.contains(document.activeElement)) document.getElementById("question")?.focus(); };
  }, []);
  return (
    <p ref={place}>
      <span className="words"><span className="dim">{word("questionWaits")}</span> {question}</span>
      <button type="button" className="quiet" onClick={onTakeBack}>{word("takeBack")}</button>
    </p>
  );
}
