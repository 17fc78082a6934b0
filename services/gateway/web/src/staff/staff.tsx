// The staff's area: what waits for people, what they decided, and how runs go. Loaded only by those who open it.
import "./staff.css";

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef } from "react";

import { type Problem, asProblem } from "../base/api";
import { useStore } from "../base/store";
import type { ReviewQueues } from "../contract/types";
import { usePage } from "../page/context";
import { LanguageSwitch, ThemeSwitch } from "../page/header";
import { type Route, addressOf } from "../page/route";
import { Runs } from "./dashboard/runs";
import { FrameworkFiles } from "./registry/frameworks";
import { Prompts } from "./registry/prompts";
import { Decisions } from "./review/decisions";
import { DeskView } from "./review/desk-view";
import { KINDS, QUEUES_KEY, isKind, readQueues } from "./review/items";
import { Overview } from "./review/overview";
import { Problems } from "./review/problems";
import { say } from "./words";

const REFRESH_MS = 30_000;

export default function Staff({ route }: { route: Route }) {
  const { preferences } = usePage();
  useStore(preferences);
  const queues = useQuery({ queryKey: QUEUES_KEY, queryFn: readQueues, refetchInterval: REFRESH_MS });
  const problem = queues.error ? asProblem(queues.error) : null;
  const mayReview = problem?.status !== 403 && problem?.status !== 401;
  useEffect(() => { document.title = `Fathom · ${say("review")}`; });
  useEffect(() => () => { document.title = "Fathom"; }, []);
  return (
    <div className="staff">
      <a className="skip" href={addressOf(route.part)} onClick={(event) => { event.preventDefault(); document.getElementById("part")?.focus(); }}>{say("toContent")}</a>
      <header>
        <a className="home" href={route.back} title={say("backToPage")}><img src="static/icon.svg" alt="" width={20} height={20} /><strong className="brand">Fathom</strong></a>
        <h1>{say("review")}</h1>
        <span className="spacer" />
        <LanguageSwitch /><ThemeSwitch />
      </header>
      {mayReview && <Parts part={route.part} queues={queues.data} />}
      <main id="part" tabIndex={-1}>{mayReview ? <Part part={route.part} queues={queues.data} problem={problem} onRetry={() => void queues.refetch()} /> : <NoRight problem={problem} back={route.back} />}</main>
    </div>
  );
}

function Parts({ part, queues }: { part: string; queues: ReviewQueues | undefined }) {
  const place = useRef<HTMLElement>(null);
  // In a narrow window the parts are one line, which scrolls.
  useEffect(() => { place.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); }, [part]);
  const waiting = new Map(queues?.queues.map(({ kind, open }) => [kind, open]));
  const entry = (name: string, title: string, open = 0): ReactNode => (
    <li key={name}><a href={addressOf(name)} aria-current={name === part ? "page" : undefined}>{title}{open > 0 && <span className="n">{open}<span className="sr-only">{` ${say("open")}`}</span></span>}</a></li>
  );
  return (
    <nav ref={place} aria-label={say("areas")}>
      <ul>
        {entry("", say("overview"))}
        {KINDS.map((kind) => entry(kind, say(`kind_${kind}`), waiting.get(kind)))}
        {entry("decisions", say("decisions"))}
        {entry("runs", say("runs"))}
        {entry("prompts", say("prompts"))}
        {entry("frameworks", say("frameworks"))}
        <li><a href="trainings">{say("trainings")}</a></li>
      </ul>
    </nav>
  );
}

interface PartProps {
  part: string;
  queues: ReviewQueues | undefined;
  problem: Problem | null;
  onRetry: () => void;
}

function Part({ part, queues, problem, onRetry }: PartProps) {
  if (isKind(part)) return <DeskView key={part} kind={part} />;
  if (part === "decisions") return <Decisions />;
  if (part === "runs") return <Runs />;
  if (part === "prompts") return <Prompts />;
  if (part === "frameworks") return <FrameworkFiles />;
  if (queues) return <Overview queues={queues} />;
  if (!problem) return <p className="dim" role="status">{say("loading")}</p>;
  return <div className="notice"><h2>{say("failedRead")}</h2><Problems problem={problem} /><div className="choice"><button type="button" onClick={onRetry}>{say("retry")}</button></div></div>;
}

function NoRight({ problem, back }: { problem: Problem | null; back: string }) {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  return (
    <div className="notice">
      <h2 ref={title} tabIndex={-1}>{say("noRight")}</h2>
      <p className="dim">{say("noRightNote")}</p>
      <Problems problem={problem} />
      <p><a href={back}>{say("backToPage")}</a></p>
    </div>
  );
}
