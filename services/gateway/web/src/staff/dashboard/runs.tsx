// The runs of the tenant: how they ended, what each model took, and the runs one by one.
import { type InfiniteData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";

import { asProblem, call, path } from "../../base/api";
import { count, duration } from "../../base/format";
import { language } from "../../base/words";
import type { RunPage, RunSummary } from "../../contract/types";
import { Problems } from "../review/problems";
import { say } from "../words";
import { merge, pagesToRead } from "./run-list";
import { type Figures, type ModelFigures, durationOf, laneOf, stateOf, summarize, tokensOf } from "./summary";

const PAGE = 200;
const REFRESH_MS = 15_000;

const readPage = (token: string): Promise<RunPage> =>
  call<RunPage>(`${path("runs")}?${new URLSearchParams({ page_size: String(PAGE), page_token: token })}`);

const RUNS = ["staff", "runs"];

// Reads again what may have changed of the pages that are shown, and not all of them.
function useRefresh(list: InfiniteData<RunPage> | undefined): Error | null {
  const queries = useQueryClient();
  const refresh = async (): Promise<number> => {
    const places = pagesToRead(list?.pages ?? []);
    const fresh = await Promise.all(places.map((place) => readPage(String(list!.pageParams[place]))));
    queries.setQueryData<InfiniteData<RunPage>>(RUNS, (known) => known && {
      ...known, pages: known.pages.map((page, place) => (places.includes(place) ? merge(page, fresh[places.indexOf(place)]!) : page)),
    });
    return Date.now();
  };
  return useQuery({ queryKey: [...RUNS, "refresh"], queryFn: refresh, enabled: list !== undefined, refetchInterval: REFRESH_MS, initialData: 0, staleTime: REFRESH_MS }).error;
}

export function Runs() {
  const list = useInfiniteQuery({
    queryKey: RUNS, queryFn: ({ pageParam }) => readPage(pageParam), initialPageParam: "", getNextPageParam: (page) => page.next_page_token || undefined,
  });
  const away = useRefresh(list.data);
  const failure = list.error ?? away;
  const runs = list.data?.pages.flatMap((page) => page.runs) ?? [];
  return (
    <>
      <h2>{say("runs")}</h2>
      <p className="dim">{say("runsNote")} <a href="trainings">{say("trainings")}</a></p>
      <Problems problem={failure ? asProblem(failure) : null} />
      {list.isPending && <p className="dim" role="status">{say("loading")}</p>}
      {list.data && !runs.length && <p className="dim" role="status">{say("noRuns")}</p>}
      {runs.length > 0 && <Summary figures={summarize(runs)} total={runs.length} />}
      {runs.length > 0 && <Table runs={runs} />}
      {list.hasNextPage && <button type="button" onClick={() => void list.fetchNextPage()} aria-busy={list.isFetchingNextPage || undefined}>{say("moreRuns")}</button>}
    </>
  );
}

function Summary({ figures, total }: { figures: Figures; total: number }) {
  return (
    <>
      <h3>{say("byState")}</h3>
      <ul className="states">{figures.states.map(({ state, runs }) => (
        <li key={state} data-state={state}><b>{count(runs)}</b> {say(state)}<meter max={total} value={runs} aria-label={`${say(state)}: ${runs} / ${total}`} /></li>
      ))}</ul>
      {figures.causes.length > 0 && <h3>{say("byCause")}</h3>}
      <ul className="causes">{figures.causes.map(({ cause, runs, example }) => (
        <li key={cause} data-cause={cause}><b>{count(runs)}</b> <strong>{cause || say("noCulprit")}</strong> <span className="dim">{example}</span></li>
      ))}</ul>
      <h3>{say("byModel")}</h3>
      <div className="scroll" tabIndex={0}>
        <table>
          <thead><tr>{["model", "runs", "finishedAnswer", "median", "slowest", "tokens", "cost"].map((name, place) => <th key={name} className={place ? "number" : undefined}>{say(name)}</th>)}</tr></thead>
          <tbody>{figures.models.map((one) => <ModelRow key={one.model} figures={one} />)}</tbody>
        </table>
      </div>
    </>
  );
}

const costOf = (cost: number): string => (cost ? cost.toPrecision(3) : "–");
const timeOf = (ms: number | null): string => (ms === null ? "–" : duration(ms));

function ModelRow({ figures: { model, runs, answered, median_ms, slowest_ms, tokens, cost } }: { figures: ModelFigures }) {
  const cells = [count(runs), `${Math.round((100 * answered) / runs)} %`, timeOf(median_ms), timeOf(slowest_ms), count(tokens), costOf(cost)];
  return <tr><th scope="row">{model || say("planner")}</th>{cells.map((text, place) => <td key={place} className="number">{text}</td>)}</tr>;
}

function Table({ runs }: { runs: RunSummary[] }) {
  return (
    <>
      <h3>{say("runs")}</h3>
      <div className="scroll runs" tabIndex={0}>
        <table>
          <thead><tr>{["began", "state", "question", "lane", "model", "lasted", "tokens", "cost"].map((name, place) => <th key={name} className={place > 4 ? "number" : undefined}>{say(name)}</th>)}</tr></thead>
          <tbody>{runs.map((run) => <RunRow key={run.run_id} run={run} />)}</tbody>
        </table>
      </div>
    </>
  );
}

function RunRow({ run }: { run: RunSummary }) {
  const began = run.start_time ? new Date(run.start_time).toLocaleString(language(), { dateStyle: "short", timeStyle: "short" }) : "–";
  return (
    <tr data-run={run.run_id}>
      <td>{began}</td><td><span className={`verdict ${stateOf(run)}`} title={run.error || undefined}>{say(stateOf(run))}</span></td>
      <td className="asked-cell"><a href={path("runs", run.run_id)} target="_blank" rel="noreferrer" title={say("record")}>{run.question}</a></td>
      <td>{laneOf(run) ? say(`lane_${laneOf(run)}`) : "–"}</td><td>{run.model || say("planner")}</td>
      {[timeOf(durationOf(run)), run.usage ? count(tokensOf(run)) : "–", costOf(Number(run.usage?.cost ?? 0))].map((text, place) => <td key={place} className="number">{text}</td>)}
    </tr>
  );
}
