// Conversations, newest first, grouped by day; what is typed above them is searched in titles and turns by the server.
import { useInfiniteQuery, useQueries, useQueryClient } from "@tanstack/react-query";
import { Dialog } from "radix-ui";
import { type ReactNode, type RefObject, useEffect, useRef, useState } from "react";

import { asProblem } from "../base/api";
import { KEYS, readConversations, readRun } from "../base/queries";
import { useStore } from "../base/store";
import { counted, language, word } from "../base/words";
import type { Conversation } from "../contract/types";
import { usePage } from "../page/context";
import { addressOf, useMayReview } from "../page/route";
import { ConversationEntry, RunningEntry } from "./entry";

const DAY_MS = 86_400_000;
// A pause in typing: the server compares every word with every turn.
const PAUSE_MS = 250;
const WATCH_MS = 5000;

export function Sidebar() {
  const { layout } = usePage();
  useStore(layout);
  if (layout.isEmbedded && !layout.isSidebarOpen) return null;
  if (!layout.isSidebarOver) return <nav id="sidebar" className="sidebar" aria-label={word("conversations")}><Body /></nav>;
  return (
    <Dialog.Root open={layout.isSidebarOpen} onOpenChange={(isOpen) => layout.toggleSidebar(isOpen)}>
      <Dialog.Portal>
        <Dialog.Overlay className="veil" />
        <Dialog.Content asChild aria-describedby={undefined} onEscapeKeyDown={layout.leaveEscape} onCloseAutoFocus={layout.restoreFocus("sidebar")}>
          <div id="sidebar" className="sidebar drawer"><Dialog.Title className="sr-only">{word("conversations")}</Dialog.Title><Body /></div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Body() {
  const { session, layout } = usePage();
  const mayReview = useMayReview();
  const [text, setText] = useState("");
  const query = useSettled(text.trim(), PAUSE_MS);
  const begin = (): void => {
    layout.toggleSidebar(false);
    session.fresh();
    document.getElementById("question")?.focus();
  };
  return (
    <>
      <button id="new" type="button" className="primary wide" onClick={begin}>{word("fresh")}</button>
      <input id="filter" type="search" aria-label={word("filter")} placeholder={word("filter")} value={text} onChange={(event) => setText(event.target.value)} />
      <Conversations query={query} />
      <div className="elsewhere">
        <a href="frameworks">{word("frameworks")}</a><a href="trainings">{word("trainings")}</a>
        {mayReview && <a href={addressOf("")}>{word("review")}</a>}
        <button type="button" className="quiet" onClick={() => layout.repeat(null)}>{word("schedules")}</button>
        <button type="button" className="quiet" onClick={() => layout.open("settings")}>{word("settings")}</button>
        <button type="button" className="quiet" onClick={() => layout.open("help")}>{word("keys")}</button>
      </div>
    </>
  );
}

function useSettled(value: string, pause: number): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [value, pause]);
  return settled;
}

function Conversations({ query }: { query: string }) {
  const { session, layout, unlisted } = usePage();
  useStore(session);
  useStore(unlisted);
  useFinished();
  const place = useRef<HTMLDivElement>(null);
  const list = useInfiniteQuery({
    queryKey: [...KEYS.conversations, query], queryFn: ({ pageParam }) => readConversations(query, pageParam),
    initialPageParam: "", getNextPageParam: (page) => page.next_page_token || undefined, placeholderData: (before) => before,
  });
  const items = list.data?.pages.flatMap((page) => page.conversations) ?? [];
  const ids = items.map((item) => item.id).join();
  useEffect(() => { if (ids) unlisted.list(ids.split(",")); }, [ids, unlisted]);
  const refocus = useRefocus(place, list.dataUpdatedAt, list.isFetching);
  const open = (id: string): void => {
    layout.toggleSidebar(false);
    void session.open(id);
  };
  const older = async (): Promise<void> => {
    const known = place.current?.querySelectorAll(".entry").length ?? 0;
    refocus(() => place.current?.querySelectorAll<HTMLElement>(".entry .open")[known]);
    await list.fetchNextPage();
  };
  const shown = query ? [] : unlisted.items;
  return (
    <div id="conversations" ref={place} title={list.error ? asProblem(list.error).message : undefined} aria-busy={list.isFetching || undefined}>
      {query && <p className="dim found" role="status">{items.length ? `${counted(items.length, "found")}${list.hasNextPage ? " +" : ""}` : word("noneFound")}</p>}
      {shown.length > 0 && <h3>{word("running")}</h3>}
      {shown.map((item) => <RunningEntry key={item.id} title={item.title} isCurrent={item.id === session.conversation} onOpen={() => open(item.id)} />)}
      {items.map((item, index) => (
        <Grouped key={item.id} name={groupOf(item)} before={index ? groupOf(items[index - 1]!) : ""}>
          <ConversationEntry item={item} query={query} isCurrent={item.id === session.conversation} onOpen={() => open(item.id)}
            onChanged={() => refocus(() => place.current?.querySelector<HTMLElement>(`[data-conversation="${CSS.escape(item.id)}"] .open`))}
            onRemoved={() => {
              refocus(() => place.current?.querySelector<HTMLElement>(`.entry:not([data-conversation="${CSS.escape(item.id)}"]) .open`) ?? document.getElementById("new"));
              if (item.id === session.conversation) session.fresh();
            }} />
        </Grouped>
      ))}
      {list.hasNextPage && <button type="button" className="quiet wide older" onClick={() => void older()}>{word("older")}</button>}
    </div>
  );
}

// Gives the focus to what is found when the list has been read anew: the entry that had it may have moved or gone. Not
// when the reader has meanwhile turned elsewhere.
function useRefocus(place: RefObject<HTMLElement | null>, updated: number, isReading: boolean): (find: () => HTMLElement | null | undefined) => void {
  const wish = useRef<{ find: () => HTMLElement | null | undefined; since: number } | null>(null);
  // Not the time of the drawing that the wish comes from: the list may have been read once more while the change went on.
  const latest = useRef(updated);
  useEffect(() => {
    latest.current = updated;
    if (!wish.current || isReading || updated <= wish.current.since) return;
    const { find } = wish.current;
    wish.current = null;
    const active = document.activeElement;
    if (!active || active === document.body || place.current?.contains(active)) find()?.focus();
  });
  return (find) => { wish.current = { find, since: latest.current }; };
}

// Looks after first runs that nobody on this page follows any more.
function useFinished(): void {
  const { unlisted } = usePage();
  const queries = useQueryClient();
  const states = useQueries({
    queries: unlisted.items.map(({ run }) => ({ queryKey: KEYS.run(run), queryFn: () => readRun(run), refetchInterval: WATCH_MS, staleTime: WATCH_MS })),
  });
  const over = unlisted.items.filter((_, place) => states[place]?.data && !states[place].data.running).map((item) => item.id).join();
  useEffect(() => {
    if (!over) return;
    for (const id of over.split(",")) unlisted.remove(id);
    void queries.invalidateQueries({ queryKey: KEYS.conversations });
  }, [over, unlisted, queries]);
}

function Grouped({ name, before, children }: { name: string; before: string; children: ReactNode }) {
  return <>{name !== before && <h3>{name}</h3>}{children}</>;
}

const groupOf = (item: Conversation): string => (item.pinned ? word("pinned") : dayOf(item.update_time ?? ""));

function dayOf(time: string): string {
  const then = new Date(time);
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (then.getTime() >= midnight) return word("today");
  if (then.getTime() >= midnight - DAY_MS) return word("yesterday");
  return then.toLocaleDateString(language(), { dateStyle: "medium" });
}
