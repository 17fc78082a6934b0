// The reader's judgement of an answer: a thumb up at once, a thumb down with what was wrong.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";

import { asProblem, path, post } from "../base/api";
import { announce } from "../base/announce";
import { isComposing } from "../base/composition";
import { KEYS, readJudgements } from "../base/queries";
import { word } from "../base/words";
import type { JudgementList } from "../contract/types";

// Kept as the judgement's tags.
const REASONS = ["wrong_number", "wrong_question", "wrong_missing", "wrong_source", "wrong_old", "wrong_unclear"];
const MAX_WORDS = 2_000;

interface Said {
  helpful: boolean;
  tags?: string[];
  comment?: string;
}

export interface Judging {
  judged: boolean | null;
  isAsking: boolean;
  problem: string;
  ask: (isAsking: boolean) => void;
  judge: (said: Said) => Promise<void>;
}

export function useJudging(run: string, conversation: string): Judging {
  const queries = useQueryClient();
  const key = KEYS.judgements(conversation);
  // What was said before of all its answers, here or in another browser; nobody changes it meanwhile but this reader.
  const kept = useQuery({ queryKey: key, queryFn: () => readJudgements(conversation), enabled: conversation !== "", staleTime: Infinity });
  const [isAsking, ask] = useState(false);
  const [problem, setProblem] = useState("");
  const judge = async (said: Said): Promise<void> => {
    try {
      await post(path("runs", run, "feedback"), said);
      // One that is still being read is older than this.
      await queries.cancelQueries({ queryKey: key });
      queries.setQueryData<JudgementList>(key, (known) => ({
        judgements: [...(known?.judgements ?? []).filter((one) => one.run_id !== run), { run_id: run, tags: [], comment: "", edited_answer: "", ...said }],
      }));
      setProblem("");
      ask(false);
      announce(word("thanks"));
    } catch (thrown) {
      setProblem(asProblem(thrown).message);
    }
  };
  const judged = kept.data?.judgements.find((one) => one.run_id === run)?.helpful ?? null;
  return { judged, isAsking, problem, ask, judge };
}

export function Thumbs({ judging: { judged, isAsking, problem, ask, judge } }: { judging: Judging }) {
  return (
    <>
      <button type="button" className="quiet" aria-pressed={judged === true} onClick={() => void judge({ helpful: true })}>{word("helpful")}</button>
      <button type="button" className="quiet unhelpful" aria-pressed={judged === false} aria-expanded={isAsking} onClick={() => ask(!isAsking)}>{word("unhelpful")}</button>
      {problem && !isAsking && <span className="chip bad" role="alert">{problem}</span>}
    </>
  );
}

export function Reasons({ judging: { isAsking, problem, ask, judge } }: { judging: Judging }) {
  const place = useRef<HTMLDivElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const isOpened = useRef(false);
  useEffect(() => {
    if (isAsking) form.current?.querySelector("input")?.focus();
    // What had the focus has gone with the form.
    else if (isOpened.current && document.activeElement === document.body) place.current?.parentElement?.querySelector<HTMLElement>(".unhelpful")?.focus();
    isOpened.current = isAsking;
  }, [isAsking]);
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    void judge({ helpful: false, tags: fields.getAll("tag").map(String), comment: String(fields.get("comment") ?? "").trim() });
  };
  const act = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || isComposing(event)) return;
    event.preventDefault(); // on the page it stops the run
    ask(false);
  };
  return (
    <div ref={place}>
      {isAsking && (
        <form ref={form} className="reasons" onSubmit={send} onKeyDown={act}>
          <fieldset><legend>{word("wrongTitle")}</legend>{REASONS.map((name) => (
            <label key={name} className="reason"><input type="checkbox" name="tag" value={name.replace("wrong_", "")} />{word(name)}</label>
          ))}</fieldset>
          <textarea name="comment" maxLength={MAX_WORDS} aria-label={word("wrongWords")} placeholder={word("wrongWords")} />
          {problem && <p className="chip bad" role="alert">{problem}</p>}
          <div className="choice">
            <button type="button" onClick={() => ask(false)}>{word("cancel")}</button>
            <button type="submit" className="primary">{word("sendJudgement")}</button>
          </div>
        </form>
      )}
    </div>
  );
}
