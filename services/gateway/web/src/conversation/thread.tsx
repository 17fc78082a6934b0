// The turns of the conversation, or what can be asked where there are none.
import { EXAMPLES } from "../base/dictionary";
import { useStore } from "../base/store";
import { language, word } from "../base/words";
import { TurnView } from "../turn/turn-view";
import { usePage } from "../page/context";

// From here on, turns out of sight are not laid out.
const MANY = 20;

export function Thread() {
  const { session } = usePage();
  useStore(session);
  const { turns } = session;
  return (
    <div id="thread" tabIndex={-1} className={turns.length > MANY ? "many" : undefined}>
      {turns.length > 0 && <h1 className="sr-only">{turns[0]!.run.question || word("conversations")}</h1>}
      {turns.map((turn) => <TurnView key={turn.run.id} turn={turn} />)}
      {session.hasMore && <More />}
      {!turns.length && (session.isOpening ? <p className="opening" role="status"><span className="spin" aria-hidden /> {word("opening")}</p> : <Welcome />)}
    </div>
  );
}

// What was asked behind the turn from which the reader goes on.
function More() {
  const { session } = usePage();
  const last = session.turns.at(-1);
  return (
    <p className="followed dim" role="status">
      {word("branched")} <button type="button" className="quiet" onClick={() => { if (last) void session.turnTo(last.run.id); }}>{word("showFollowers")}</button>
    </p>
  );
}

function Welcome() {
  const { session } = usePage();
  return (
    <section id="welcome">
      <h1>{word("welcome")}</h1>
      <p>{word("promise")}</p>
      <div id="examples">{EXAMPLES[language()].map((text) => (
        <button key={text} type="button" className="example" onClick={() => void session.ask(text)}>{text}</button>
      ))}</div>
    </section>
  );
}
