// What questions can draw on: which connectors and servers of tools are set up, what each gives, and how it stands.
import { type UseMutationResult, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { asProblem, path, post } from "../base/api";
import { duration, minuteOfSecond } from "../base/format";
import { KEYS, readSources } from "../base/queries";
import { language, word } from "../base/words";
import type { Probe, Source } from "../contract/types";
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
  const probe = useProbe(source);
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
        {canBeTried(source) && <button type="button" className="quiet" aria-busy={probe.isPending || undefined} aria-label={`${word("trySource")}: ${source.name}`}
          onClick={() => { if (!probe.isPending) probe.mutate(); }}>{word(probe.isPending ? "tryingSource" : "trySource")}</button>}
      </div>
      <ProbeResult probe={probe} />
      <p className="dim">{describe(source)}</p>
      {source.missing_tools.length > 0 && <p className="warned">{`${word("missingTools")} ${source.missing_tools.join(", ")}`}</p>}
      {operation?.failure && (state === "failing" || state === "paused") && <p className="failed">{operation.failure}</p>}
      {isOff && operation?.setting && <p className="dim">{word("turnedOnBy")} <code>{operation.setting}</code></p>}
    </li>
  );
}

// Asks the service of a source to try it now; the list is then read anew, since it says how the last try went.
function useProbe({ kind, name }: Source): UseMutationResult<Probe, unknown, void> {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => post<Probe>(path("sources", kind, name, "probe")),
    onSettled: () => queries.invalidateQueries({ queryKey: KEYS.sources }),
  });
}

// Bundled tables are read when the service starts, and what is off is not asked; who may not try is told nothing of the
// sources' operation either.
const canBeTried = ({ kind, state, operation }: Source): boolean => Boolean(operation) && kind !== "bundled" && state !== "off";

function ProbeResult({ probe: { data, error } }: { probe: UseMutationResult<Probe, unknown, void> }) {
  const failure = error ? asProblem(error).message : data?.failure ?? "";
  const said = failure ? `${word("triedInVain")} ${failure}` : data ? `${word("triedSource")} · ${duration(data.duration_ms)}` : "";
  return <p role="status" className={said ? (failure ? "failed tried" : "ok tried") : undefined}>{said}</p>;
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
