// What earlier answers have concluded: of whom, what, when and by which run, and what they had concluded before.
import { type UseMutationResult, useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";

import { announce } from "../base/announce";
import { asProblem, call, path } from "../base/api";
import { day } from "../base/format";
import { KEYS } from "../base/queries";
import { word } from "../base/words";
import type { Stance, Stances } from "../contract/types";
import { Confirm } from "../page/confirm";
import { Chip } from "./parts";

const PAGE = 200;
const readStances = (token: string): Promise<Stances> =>
  call<Stances>(`${path("stances")}?${new URLSearchParams({ page_size: String(PAGE), page_token: token })}`);

// What is said of one measure of one entity over one period, newest first.
export interface Concluded {
  key: string;
  newest: Stance;
  earlier: Stance[];
}

function group(stances: Stance[]): Concluded[] {
  const groups = new Map<string, Concluded>();
  for (const stance of stances) {
    const key = [stance.entity, stance.measure, stance.start_date, stance.end_date].join("\n");
    const known = groups.get(key);
    if (known) known.earlier.push(stance);
    else groups.set(key, { key, newest: stance, earlier: [] });
  }
  return [...groups.values()];
}

// Other figures than now; the same one again is no contradiction.
const isContradicted = ({ newest, earlier }: Concluded): boolean => earlier.some(({ value }) => value !== newest.value);

export function StanceSettings() {
  const { data, error, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery({
    queryKey: KEYS.stances, queryFn: ({ pageParam }) => readStances(pageParam),
    initialPageParam: "", getNextPageParam: (page) => page.next_page_token || undefined,
  });
  const place = useRef<HTMLParagraphElement>(null);
  const drop = useDrop();
  if (!data) return <p role="status" className={error ? "chip bad" : "dim"}>{error ? asProblem(error).message : word("readingList")}</p>;
  const concluded = group(data.pages.flatMap((page) => page.stances));
  // What had the focus goes with its conclusion.
  const remove = (stance: Stance): void => drop.mutate(stance, { onSuccess: () => place.current?.focus() });
  return (
    <>
      <p ref={place} className="dim note" tabIndex={-1}>{word("stancesNote")}</p>
      {(drop.error ?? error) && <p className="chip bad" role="alert">{asProblem(drop.error ?? error).message}</p>}
      {concluded.length ? <ul className="things">{concluded.map((one) => <Entry key={one.key} concluded={one} onRemove={remove} />)}</ul> : <p className="dim">{word("noStances")}</p>}
      {hasNextPage && <button type="button" className="quiet wide older" disabled={isFetching} onClick={() => void fetchNextPage()}>{word("olderStances")}</button>}
    </>
  );
}

// Deletes a conclusion; the list is read anew, also where somebody else had deleted it before.
function useDrop(): UseMutationResult<unknown, unknown, Stance> {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (stance: Stance) => call(path("stances", stance.id), { method: "DELETE" }),
    onSuccess: () => announce(word("memoryChanged")),
    onSettled: () => queries.invalidateQueries({ queryKey: KEYS.stances }),
  });
}

function Entry({ concluded, onRemove }: { concluded: Concluded; onRemove: (stance: Stance) => void }) {
  const { newest, earlier } = concluded;
  const period = [newest.start_date, newest.end_date].filter(Boolean).join(" – ");
  return (
    <li data-stance={newest.id}>
      <div className="thing-head">
        <strong>{newest.entity}</strong><span className="dim">{[newest.measure, period].filter(Boolean).join(" · ")}</span><span className="spacer" />
        {isContradicted(concluded) && <Chip tone="warn">{word("contradicted")}</Chip>}
        <Removal stance={newest} onRemove={onRemove} />
      </div>
      <p>{newest.view}</p>
      <Origin stance={newest} />
      {earlier.length > 0 && (
        <details>
          <summary>{word("earlierStances").replace("{count}", String(earlier.length))}</summary>
          <ul>{earlier.map((one) => <li key={one.id}><div className="thing-head"><p>{one.view}</p><span className="spacer" /><Removal stance={one} onRemove={onRemove} /></div><Origin stance={one} /></li>)}</ul>
        </details>
      )}
    </li>
  );
}

function Removal({ stance, onRemove }: { stance: Stance; onRemove: (stance: Stance) => void }) {
  return (
    <Confirm question={word("confirmStance")} about={stance.view} action={word("remove")} onConfirm={() => onRemove(stance)}>
      <button type="button" className="quiet act remove" aria-label={`${word("remove")}: ${stance.view}`} title={word("remove")}>✕</button>
    </Confirm>
  );
}

// When it was concluded, on what data, and the run that did it.
function Origin({ stance }: { stance: Stance }) {
  const said = [day(stance.create_time), stance.as_of && `${word("asOf")} ${stance.as_of}`].filter(Boolean).join(" · ");
  return (
    <p className="dim">
      {said} {stance.run_id && <a href={`?child=1#run=${encodeURIComponent(stance.run_id)}`} target="_blank" rel="noreferrer">{word("sourceRun")}</a>}
    </p>
  );
}
