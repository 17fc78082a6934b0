// What is remembered of the reader, each fact to edit or delete, and a form for a new one.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { day } from "../base/format";
import { KEYS } from "../base/queries";
import { word } from "../base/words";
import type { Fact } from "../contract/types";
import { CHOICES, type FactBody, KINDS, addFact, dropFact, editFact, kindOfFact, useFacts } from "./facts";

export function Memory() {
  const facts = useFacts();
  const queries = useQueryClient();
  const [problem, setProblem] = useState("");
  // Another tab's edit is shown with what it says now, and the reader's own is to be made again.
  const attempt = async (act: () => Promise<unknown>): Promise<boolean> => {
    try {
      await act();
      setProblem("");
      announce(word("memoryChanged"));
      return true;
    } catch (thrown) {
      const { status, message } = asProblem(thrown);
      setProblem(status === 409 ? word("factChanged") : message);
      return status === 409 || status === 404;
    } finally {
      await queries.invalidateQueries({ queryKey: KEYS.facts });
    }
  };
  return (
    <div className="memory">
      <p className="dim">{word("memoryNote")}</p>
      {problem && <p className="chip bad" role="alert">{problem}</p>}
      {facts.length ? <ul className="facts">{facts.map((fact) => <Entry key={fact.id} fact={fact} attempt={attempt} />)}</ul>
        : <p className="dim">{word("noFacts")}</p>}
      <FactForm label={word("addFact")} onSave={(body) => attempt(() => addFact(body))} />
    </div>
  );
}

function Entry({ fact, attempt }: { fact: Fact; attempt: (act: () => Promise<unknown>) => Promise<boolean> }) {
  // As it was when its edit began: a newer one that is loaded meanwhile must not be overwritten unseen.
  const [edited, setEdited] = useState<Fact | null>(null);
  if (edited) {
    const save = async (body: FactBody): Promise<boolean> => {
      const isOver = await attempt(() => editFact(edited, body));
      if (isOver) setEdited(null);
      return isOver;
    };
    return <li className="source" data-fact={fact.id}><FactForm fact={edited} label={word("saveFact")} onSave={save} onLeave={() => setEdited(null)} /></li>;
  }
  const isLearnt = fact.origin === "FACT_ORIGIN_LEARNT";
  const origin = [word(isLearnt ? "learntFact" : "statedFact"), day(fact.update_time), isLearnt && `${Math.round(fact.confidence * 100)} %`];
  return (
    <li className="source" data-fact={fact.id}>
      <div className="kind">
        {word(`fact_${kindOfFact(fact)}`)}<span className="spacer" />
        <button type="button" className="quiet" aria-label={`${word("editFact")}: ${fact.text}`} onClick={() => setEdited(fact)}>✎</button>
        <button type="button" className="quiet" aria-label={`${word("remove")}: ${fact.text}`} onClick={(event) => {
          const form = event.currentTarget.closest(".memory")?.querySelector<HTMLElement>(":scope > form [name=text]");
          // What has the focus goes with its fact; of one that stays the button keeps it.
          void attempt(() => dropFact(fact)).then((isOver) => { if (isOver) form?.focus(); });
        }}>✕</button>
      </div>
      {fact.value && <strong>{fact.value.replaceAll(",", ", ")}</strong>}<div>{fact.text}</div>
      <div className="dim">{origin.filter(Boolean).join(" · ")}</div>
    </li>
  );
}

interface FormProps {
  fact?: Fact;
  label: string;
  onSave: (body: FactBody) => Promise<boolean>;
  onLeave?: () => void;
}

// Fields of one fact; the kind of one that is there stays.
function FactForm({ fact, label, onSave, onLeave }: FormProps) {
  const [kind, setKind] = useState(fact ? kindOfFact(fact) : "statement");
  const [value, setValue] = useState(fact?.value ?? "");
  const [text, setText] = useState(fact?.text ?? "");
  const choices = CHOICES[kind];
  const chosen = choices && !choices.includes(value) ? choices[0]! : value;
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const isDone = await onSave({ kind, value: kind === "statement" ? "" : chosen.trim(), text: text.trim() });
    if (isDone && !fact) {
      setText("");
      setValue("");
    }
  };
  return (
    <form className="fact-form" onSubmit={(event) => void save(event)} onKeyDown={(event) => {
      if (event.key !== "Escape" || !onLeave) return;
      event.preventDefault();
      onLeave();
    }}>
      <select name="kind" aria-label={word("factKind")} disabled={Boolean(fact)} value={kind} onChange={(event) => setKind(event.target.value)}>
        {KINDS.map((name) => <option key={name} value={name}>{word(`fact_${name}`)}</option>)}
      </select>
      {kind !== "statement" && (choices ? (
        <select name="value" aria-label={word("factValue")} value={chosen} onChange={(event) => setValue(event.target.value)}>
          {choices.map((name) => <option key={name} value={name}>{word(`value_${name}`)}</option>)}
        </select>
      ) : <input name="value" aria-label={word("factValue")} required value={value} placeholder={kind === "currency" ? "EUR" : "AAPL, NVDA"}
        onChange={(event) => setValue(event.target.value)} />)}
      <input name="text" required maxLength={500} aria-label={word("factText")} placeholder={word("factText")} value={text} autoFocus={Boolean(fact)}
        onChange={(event) => setText(event.target.value)} />
      <button type="submit">{label}</button>
    </form>
  );
}
