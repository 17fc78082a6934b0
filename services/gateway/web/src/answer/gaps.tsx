// Chips behind an answer: what was asked for and not found, what the checks took out or could not decide.
import { word } from "../base/words";
import type { Finding, Missing } from "../contract/types";
import { kindOfFinding } from "../run/marks";
import type { Run } from "../run/run";

// How many statements the checks could not decide; each has its sign in the text.
export function Unchecked({ run }: { run: Run }) {
  const open = run.findings.filter((finding: Finding) => kindOfFinding(finding) === "unchecked");
  if (!open.length) return null;
  return <div className="gaps" role="list"><span className="chip" role="listitem">{`${word("doubt_unchecked")}: ${open.length}`}</span></div>;
}

const PLACELESS = new Set(["unresolved", "section"]);

// One chip per citation that named nothing and was taken out of the text, and per section that a report lacks.
export function Removed({ run }: { run: Run }) {
  const gone = run.findings.filter((finding: Finding) => PLACELESS.has(kindOfFinding(finding)) && finding.start === finding.end);
  if (!gone.length) return null;
  return (
    <div className="gaps" role="list">{gone.map((finding, place) => (
      <span key={place} className="chip bad" role="listitem">{`${word(`doubt_${kindOfFinding(finding)}`)}: ${finding.text.replace(/^#+ /, "")}`}</span>
    ))}</div>
  );
}

// One chip per thing that was asked for and not found, how to bring it, and a way to look for it again.
export function MissingData({ run, onAsk }: { run: Run; onAsk: (question: string) => void }) {
  const items = run.of("missing");
  if (!items.length) return null;
  return (
    <div className="gaps" role="list">
      {items.map(({ number, missing }) => <span key={number} className="chip warn" role="listitem" title={missing.detail}>{describe(missing)}</span>)}
      <span className="dim" role="listitem">{word("bringTable")}</span>
      <span role="listitem"><button type="button" className="quiet retry" onClick={() => onAsk(run.question)}>{word("lookAgain")}</button></span>
    </div>
  );
}

function describe(missing: Missing): string {
  const what = [missing.subject, missing.aspect, missing.period].filter(Boolean).join(" · ");
  const nearest = missing.nearest.length ? ` (${word("nearest")}: ${missing.nearest.join(", ")})` : "";
  return `${word("missing")}: ${what} – ${reasonOf(missing)}${nearest}`;
}

// Reasons that the page has no word for are shown as the contract names them.
function reasonOf({ reason }: Missing): string {
  const name = (reason ?? "").replace("MISSING_REASON_", "").toLowerCase();
  const key = `reason_${name}`;
  const said = word(key);
  return said === key ? name.replaceAll("_", " ") : said;
}
