// What the columns of a file seem to mean, to be edited and taken: questions then find its days, its names and its units.
import { type FormEvent, type ReactNode, memo, useCallback, useState } from "react";

import { announce } from "../base/announce";
import { asProblem } from "../base/api";
import { useStore } from "../base/store";
import { word } from "../base/words";
import type { MeantColumn } from "../contract/types";
import { usePage } from "../page/context";
import { applyMeaning, useProposal } from "./meanings";
import type { Upload } from "./uploads";

const ROLES: MeantColumn["role"][] = ["date", "label", "value", "ignored"];
const WAYS: MeantColumn["aggregation"][] = ["", "last", "sum", "mean"];
const YEAR = /^\d{4}$/;

export function ColumnMeanings() {
  const { layout } = usePage();
  const { upload } = useStore(layout);
  return upload?.imported ? <Proposal key={upload.imported} upload={upload} /> : null;
}

function Proposal({ upload }: { upload: Upload }) {
  const { data, error } = useProposal(upload);
  const columns = upload.columns ?? data?.columns;
  if (columns) return <Meanings upload={upload} proposed={columns} />;
  return <p role={error ? "alert" : "status"} className={error ? "chip bad" : "dim"}>{error ? asProblem(error).message : word("readingList")}</p>;
}

function Meanings({ upload, proposed }: { upload: Upload; proposed: MeantColumn[] }) {
  const { layout, uploads } = usePage();
  const [columns, setColumns] = useState(proposed);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const change = useCallback((place: number, changed: Partial<MeantColumn>): void => {
    setColumns((known) => known.map((one, other) => (other === place ? { ...one, ...changed } : one)));
  }, []);
  const take = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      uploads.adopt(upload, columns, await applyMeaning(upload, columns));
      announce(word("meaningTaken"));
      // A dialog that has been opened meanwhile stays.
      if (layout.dialog === "columns") layout.open("");
    } catch (thrown) {
      setProblem(asProblem(thrown).message);
      setBusy(false);
    }
  };
  return (
    <form className="meanings" onSubmit={(event) => void take(event)}>
      <p className="dim">{word("meaningNote").replace("{name}", () => upload.name)}</p>
      {columns.map((column, place) => <Fields key={column.column} column={column} place={place} onChange={change} />)}
      {problem && <p className="chip bad" role="alert">{problem}</p>}
      <div className="choice"><button type="submit" className="primary" aria-busy={isBusy || undefined}>{word("takeMeaning")}</button></div>
    </form>
  );
}

interface FieldsProps {
  column: MeantColumn;
  place: number;
  onChange: (place: number, changed: Partial<MeantColumn>) => void;
}

// A table may have a thousand columns: only the one that is edited is drawn again.
const Fields = memo(function Fields({ column, place, onChange }: FieldsProps) {
  // As it is typed: an empty line at the end is the beginning of a further name.
  const [names, setNames] = useState((column.names ?? []).join("\n"));
  const change = (changed: Partial<MeantColumn>): void => onChange(place, changed);
  const writeNames = (text: string): void => {
    setNames(text);
    change({ names: text.split("\n").map((name) => name.trim()).filter(Boolean) });
  };
  return (
    <fieldset>
      <legend className="mono">{column.column}</legend>
      <Field label="columnRole"><select value={column.role} onChange={({ target }) => change({ role: target.value as MeantColumn["role"] })}>
        {ROLES.map((role) => <option key={role} value={role}>{word(`holds_${role}`)}</option>)}
      </select></Field>
      {column.role === "value" && (
        <>
          <Field label="columnWay"><select value={column.aggregation} onChange={({ target }) => change({ aggregation: target.value as MeantColumn["aggregation"] })}>
            {WAYS.map((way) => <option key={way} value={way}>{word(way ? `way_${way}` : "notSet")}</option>)}
          </select></Field>
          <Field label="columnUnit"><input value={column.unit} maxLength={40} onChange={({ target }) => change({ unit: target.value })} /></Field>
          <Field label="columnPeriod"><input value={column.period || (column.year ? String(column.year) : "")} maxLength={100}
            onChange={({ target }) => change(YEAR.test(target.value) ? { year: Number(target.value), period: "" } : { year: 0, period: target.value })} /></Field>
        </>
      )}
      {["value", "label"].includes(column.role) && <Field label="columnNames"><textarea rows={Math.min(3, names.split("\n").length)} value={names} onChange={({ target }) => writeNames(target.value)} /></Field>}
    </fieldset>
  );
});

const Field = ({ label, children }: { label: string; children: ReactNode }) => <label><span>{word(label)}</span>{children}</label>;
