// The dialog of links: a new one for the answer or its conversation, and those that there are.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { useCopy } from "../base/copying";
import { KEYS } from "../base/queries";
import { useStore } from "../base/store";
import { counted, language, word } from "../base/words";
import type { MadeLink } from "../contract/types";
import { Choice } from "../page/choice";
import { usePage } from "../page/context";
import { LinkList } from "./link-list";
import { type Wish, addressOfLink, makeLink } from "./links";

const SUBJECTS = ["answer", "conversation"] as const;
const AUDIENCES = ["tenant", "anyone"] as const;
const LIFETIMES = ["1", "7", "30", "90", "365"] as const;

export function Share() {
  const { layout } = usePage();
  useStore(layout);
  return (
    <>
      {layout.shared && <NewLink run={layout.shared.run} conversation={layout.shared.conversation} />}
      <LinkList />
    </>
  );
}

function NewLink({ run, conversation }: { run: string; conversation: string }) {
  const queries = useQueryClient();
  const [subject, setSubject] = useState<(typeof SUBJECTS)[number]>("answer");
  const [audience, setAudience] = useState<Wish["audience"]>("tenant");
  const [givesUploads, setGivesUploads] = useState(false);
  const [days, setDays] = useState<(typeof LIFETIMES)[number]>("30");
  const [made, setMade] = useState<MadeLink | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const make = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      const about = subject === "answer" ? { run_id: run } : { conversation_id: conversation };
      setMade(await makeLink({ ...about, audience, language: language(), gives_uploads: givesUploads, lifetime_days: Number(days) }));
      setProblem("");
    } catch (thrown) {
      setMade(null);
      setProblem(asProblem(thrown).message);
    } finally {
      setBusy(false);
      await queries.invalidateQueries({ queryKey: KEYS.links });
    }
  };
  return (
    <form className="new-link" onSubmit={(event) => void make(event)}>
      <p className="dim">{word("shareNote")}</p>
      <Choice label={word("shareWhat")} value={subject} names={conversation ? SUBJECTS : ["answer"]} nameOf={(name) => word(`share_${name}`)} onChoose={setSubject} />
      <Choice label={word("shareWho")} value={audience} names={AUDIENCES} nameOf={(name) => word(`share_${name}`)} onChoose={setAudience} />
      <Choice label={word("shareUntil")} value={days} names={LIFETIMES} nameOf={(name) => counted(Number(name), "days")} onChoose={setDays} />
      <label className="reason"><input type="checkbox" checked={givesUploads} onChange={(event) => setGivesUploads(event.target.checked)} />{word("shareUploads")}</label>
      <p className="dim">{word("shareUploadsNote")}</p>
      <div className="choice"><button type="submit" className="primary" aria-busy={isBusy || undefined}>{word("makeLink")}</button></div>
      {problem && <p className="chip bad" role="alert">{problem}</p>}
      {made && <Address key={made.id} address={addressOfLink(made)} />}
    </form>
  );
}

// The address of a new link: the gateway keeps no copy of it.
function Address({ address }: { address: string }) {
  const field = useRef<HTMLInputElement>(null);
  const { said, copy } = useCopy();
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
    announce(word("linkMade"));
  }, []);
  return (
    <div className="made-link">
      <label htmlFor="made-link">{word("linkMade")}</label>
      <div><input ref={field} id="made-link" readOnly value={address} onFocus={(event) => event.target.select()} />
        <button type="button" onClick={() => void copy(address)}>{word(said)}</button></div>
    </div>
  );
}
