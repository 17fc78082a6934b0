// Questions that the answer itself leads to.
import { word } from "../base/words";
import type { Run } from "../run/run";
import { suggest } from "../run/suggestions";

export function Suggestions({ run, onAsk }: { run: Run; onAsk: (question: string) => void }) {
  const found = run.state === "finished" && !run.clarification ? suggest(run) : [];
  if (!found.length) return null;
  return (
    <div className="suggestions">
      <span className="dim" id={`next-${run.id}`}>{`${word("next")}${word("colon")}`}</span>
      <ul aria-labelledby={`next-${run.id}`}>{found.map(({ question, why }) => (
        <li key={question}><button type="button" title={word(`next_${why}`)} onClick={() => onAsk(question)}>{question}</button></li>
      ))}</ul>
    </div>
  );
}
