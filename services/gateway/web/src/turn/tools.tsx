// What can be done with an answer: copy it, take it as a file, judge it, ask its question again.
import { asProblem } from "../base/api";
import { useCopy } from "../base/copying";
import { word } from "../base/words";
import { usePage } from "../page/context";
import type { Run } from "../run/run";
import { markdownOf } from "./export";
import { ExportMenu } from "./export-menu";
import { Reasons, Thumbs, useJudging } from "./judgement";
import type { Turn } from "./turn";

export function Tools({ turn, onEdit }: { turn: Turn; onEdit: () => void }) {
  const { session, layout } = usePage();
  const { run } = turn;
  const branch = async (): Promise<void> => {
    await session.branch(turn).catch((thrown: unknown) => session.complain(asProblem(thrown).message));
    document.getElementById("question")?.focus();
  };
  const judging = useJudging(run.id, session.conversation);
  return (
    <>
      <div className="tools">
        <CopyAnswer run={run} />
        <ExportMenu run={run.id} />
        <button type="button" className="quiet share" onClick={() => layout.share({ run: run.id, conversation: session.conversation })}>{word("shareShort")}</button>
        <button type="button" className="quiet" onClick={() => void session.ask(run.question, turn)}>{word("askAgain")}</button>
        <button type="button" className="quiet repeat" onClick={() => layout.repeat({ run: run.id, describe: () => session.describeAgain(turn) })}>{word("repeatShort")}</button>
        <button type="button" className="quiet edit" onClick={onEdit}>{word("editQuestion")}</button>
        {session.turns.at(-1) !== turn && <button type="button" className="quiet branch" onClick={() => void branch()}>{word("branch")}</button>}
        <Thumbs judging={judging} />
        <span className="spacer" />
        <span className="badge">{run.model === "rules" ? word("rules") : run.model}</span>
      </div>
      <Reasons judging={judging} />
    </>
  );
}

function CopyAnswer({ run }: { run: Run }) {
  const { said, copy } = useCopy();
  // With tables and references in place of marks; what the page has, where the server cannot be reached.
  const read = (): Promise<string> => markdownOf(run.id).catch(() => run.text);
  const rich = async (text: string): Promise<string> => (await import("../answer/rich")).asHtml(text);
  return <button type="button" className="quiet" title={word("copyAnswer")} onClick={() => void copy(read(), rich)}>{word(said)}</button>;
}
