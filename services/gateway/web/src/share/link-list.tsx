// Links that have not ended, newest first, each to withdraw.
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { dayOfSecond } from "../base/format";
import { KEYS } from "../base/queries";
import { word } from "../base/words";
import type { Link } from "../contract/types";
import { Confirm } from "../page/confirm";
import { isNewer, readLinks, withdrawLink } from "./links";

export function LinkList() {
  const queries = useQueryClient();
  const title = useRef<HTMLHeadingElement>(null);
  const [problem, setProblem] = useState("");
  const list = useInfiniteQuery({
    queryKey: KEYS.links, queryFn: ({ pageParam }) => readLinks(pageParam), initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
  });
  const links = (list.data?.pages.flatMap((page) => page.links) ?? []).sort(isNewer);
  const withdraw = async (link: Link): Promise<void> => {
    try {
      await withdrawLink(link.id);
      setProblem("");
      announce(word("withdrawn"));
      // What has the focus goes with its link.
      title.current?.focus();
    } catch (thrown) {
      setProblem(asProblem(thrown).message);
    }
    await queries.invalidateQueries({ queryKey: KEYS.links });
  };
  const failed = problem || (list.error ? asProblem(list.error).message : "");
  return (
    <section className="links" aria-busy={list.isFetching || undefined}>
      <h3 ref={title} tabIndex={-1}>{word("links")}</h3>
      {failed && <p className="chip bad" role="alert">{failed}</p>}
      {list.isSuccess && !links.length && <p className="dim">{word("noLinks")}</p>}
      <ul>{links.map((link) => <Entry key={link.id} link={link} onWithdraw={() => void withdraw(link)} />)}</ul>
      {list.hasNextPage && <button type="button" className="quiet wide" onClick={() => void list.fetchNextPage()}>{word("more")}</button>}
    </section>
  );
}

function Entry({ link, onWithdraw }: { link: Link; onWithdraw: () => void }) {
  const what = word(link.conversation_id ? "share_conversation" : "share_answer");
  const facts = [what, word(`share_${link.audience}`), link.gives_uploads && word("linkWithFiles"), `${word("linkEnds")} ${dayOfSecond(link.ends)}`, link.creator].filter(Boolean);
  return (
    <li data-link={link.id}>
      <div><strong title={link.title}>{link.title}</strong><div className="dim">{facts.join(" · ")}</div></div>
      <Confirm question={word("confirmWithdraw")} about={link.title} action={word("withdraw")} onConfirm={onWithdraw}>
        <button type="button" className="quiet" aria-label={`${word("withdraw")}: ${link.title}`}>{word("withdraw")}</button>
      </Confirm>
    </li>
  );
}
