// What questions can draw on: which connectors and servers of tools are set up, what each gives, and how it stands.
import { useQuery } from "@tanstack/react-query";

import { asProblem } from "../base/api";
import { minuteOfSecond } from "../base/format";
import { KEYS, readSources } from "../base/queries";
import { language, word } from "../base/words";
import type { Source } from "../contract/types";
import { Chip, type Tone } from "./parts";

// In the order of the list.
const KINDS = ["vendor", "tools", "database", "documents", "bundled"] as const;
const TONES: Record<Source["state"], Tone> = {
  answering: "good", ready: "good", untried: "dim", unwatched: "dim", off: "dim", paused: "warn", failing: "bad",
};

export function SourceSettings() {
  const { data, error, isFetching, refetch } = useQuery({ queryKey: KEYS.sources, queryFn: readSources });
  return (
    <div className="sources" aria-busy={isFetching}>
      <div className="thing-head">
        <p className="dim note">{word("sourcesNote")}</p>
        <span className="spacer" />
        <button type="button" onClick={() => void refetch()}>{word("readAgain")}</button>
      </div>
      {!data && <p role="status" className={error ? "chip bad" : "dim"}>{error ? asProblem(error).message : word("readingList")}</p>}
      {data?.away.map(({ service }) => <p key={service} role="status" className="chip warn">{word("serviceAway").replace("{name}", service)}</p>)}
      {KINDS.map((kind) => <Group key={kind} kind={kind} sources={(data?.sources ?? []).filter((source) => source.kind === kind)} />)}
    </div>
  );
}

function Group({ kind, sources }: { kind: Source["kind"]; sources: Source[] }) {
  if (!sources.length) return null;
  const name = word(`sources_${kind}`);
  return (
    <section aria-label={name}>
      <h3>{name}</h3>
      <ul className="things">{sources.map((source) => <Entry key={source.name} source={source} />)}</ul>
    </section>
  );
}

function Entry({ source }: { source: Source }) {
  const { operation, state } = source;
  const isOff = state === "off";
  return (
    <li data-source={`${source.kind}:${source.name}`} className={isOff ? "off" : undefined}>
      <div className="thing-head">
        <strong>{source.name}</strong>
        {operation?.host && <span className="dim">{operation.host}</span>}
        <span className="spacer" />
        {operation && operation.credential !== "none" && (
          <Chip tone={operation.credential === "set" ? "dim" : "bad"}>{word(operation.credential === "set" ? "keySet" : "keyMissing")}</Chip>
        )}
        <Chip tone={TONES[state]}>{word(`source_${state}`)}</Chip>
      </div>
      <p className="dim">{describe(source)}</p>
      {source.missing_tools.length > 0 && <p className="warned">{`${word("missingTools")} ${source.missing_tools.join(", ")}`}</p>}
      {operation?.failure && (state === "failing" || state === "paused") && <p className="failed">{operation.failure}</p>}
      {isOff && operation?.setting && <p className="dim">{word("turnedOnBy")} <code>{operation.setting}</code></p>}
    </li>
  );
}

// What it gives, until when, and when it answered and failed at last.
function describe(source: Source): string {
  const offers = source.offers.map(({ kind, markets }) => `${word(`offer_${kind}`)}${word("colon")} ${listNames(markets.map((market) => word(`market_${market}`)))}`);
  return [
    source.description, ...offers, source.tools.length > 0 && source.tools.join(", "),
    source.as_of && `${word("asOf")} ${source.as_of}`,
    source.answered && `${word("lastAnswer")} ${minuteOfSecond(source.answered)}`,
    source.failed && `${word("lastFailure")} ${minuteOfSecond(source.failed)}`,
  ].filter(Boolean).join(" · ");
}

const listNames = (names: string[]): string => names.join(language() === "zh" ? "、" : ", ");
