// What can be done with an answer: copy it, take it as a file, judge it, ask its question again.
import { useState } from "react";

import { asProblem, path, post } from "../base/api";
import { announce } from "../base/announce";
import { word } from "../base/words";
import { usePage } from "../page/context";
import type { Run } from "../run/run";
import { markdownOf } from "./export";
import { ExportMenu } from "./export-menu";

export function Tools({ run }: { run: Run }) {
  const { session, draft } = usePage();
  const edit = (): void => {
    draft.write(run.question);
    document.getElementById("question")?.focus();
  };
  return (
    <div className="tools">
      <CopyAnswer run={run} />
      <ExportMenu run={run.id} />
      <button type="button" className="quiet" onClick={() => void session.ask(run.question)}>{word("askAgain")}</button>
      <button type="button" className="quiet" onClick={edit}>{word("editQuestion")}</button>
      <Judgement run={run.id} />
      <span className="spacer" />
      <span className="badge">{run.model === "rules" ? word("rules") : run.model}</span>
    </div>
  );
}

function CopyAnswer({ run }: { run: Run }) {
  const [said, setSaid] = useState("copy");
  const copy = async (): Promise<void> => {
    // With tables and references in place of marks; what the page has, where the server cannot be reached.
    const text = await markdownOf(run.id).catch(() => run.text);
    const isDone = await navigator.clipboard.writeText(text).then(() => true, () => false);
    setSaid(isDone ? "copied" : "noClipboard");
  };
  return <button type="button" className="quiet" onClick={() => void copy()}>{word(said)}</button>;
}

function Judgement({ run }: { run: string }) {
  const [judged, setJudged] = useState<boolean | null>(null);
  const judge = async (isHelpful: boolean): Promise<void> => {
    try {
      await post(path("runs", run, "feedback"), { helpful: isHelpful });
      setJudged(isHelpful);
      announce(word("thanks"));
    } catch (thrown) {
      announce(asProblem(thrown).message);
    }
  };
  return [true, false].map((isHelpful) => (
    <button key={String(isHelpful)} type="button" className="quiet" aria-pressed={judged === isHelpful} onClick={() => void judge(isHelpful)}>
      {word(isHelpful ? "helpful" : "unhelpful")}
    </button>
  ));
}
