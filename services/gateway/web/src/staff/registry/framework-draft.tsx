// The draft of a framework's file: a text, what differs, and what the reader of the files says of it.
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { asProblem, path, post } from "../../base/api";
import { saveText } from "../../base/files";
import type { CheckedFramework, FrameworkFile, FrameworkProblem } from "../../contract/types";
import { Tree, nameOf } from "../../library/tree";
import { Difference } from "../review/difference";
import { Problems } from "../review/problems";
import { say } from "../words";

interface Props {
  file: FrameworkFile;
  onDrop: () => void;
}

interface Checked {
  text: string;
  result: CheckedFramework;
}

export function FrameworkDraft({ file, onDrop }: Props) {
  const [text, setText] = useState(file.text);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => { field.current?.focus(); field.current?.setSelectionRange(0, 0); }, []);
  const check = useMutation({
    mutationFn: async (checked: string): Promise<Checked> => (
      { text: checked, result: await post<CheckedFramework>(path("frameworks", "check"), { text: checked, replaces: file.topic }) }
    ),
  });
  // What was said of an earlier text says nothing of this one.
  const result = check.data?.text === text ? check.data.result : null;
  const problem = check.error && check.variables === text ? asProblem(check.error) : null;
  // The line is where the field's cursor goes: a long text has no numbers at its side.
  const goTo = (line: number): void => {
    const start = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = text.indexOf("\n", start);
    field.current?.focus();
    field.current?.setSelectionRange(start, end < 0 ? text.length : end);
  };
  return (
    <form className="draft" onSubmit={(event) => { event.preventDefault(); check.mutate(text); }}>
      <label htmlFor="draft">{`${say("draftFile")} · ${file.name}`}</label>
      <textarea
        id="draft" ref={field} rows={18} wrap="off" spellCheck={false} value={text} aria-describedby="draft-keys" aria-invalid={result ? !result.is_valid : undefined} onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); check.mutate(text); } }}
      />
      <div className="choice">
        <button type="submit" className={result?.is_valid ? undefined : "primary"} disabled={!text.trim()} aria-busy={check.isPending || undefined}>{say("checkDraft")}</button>
        <button type="button" className={result?.is_valid ? "primary" : undefined} disabled={!result?.is_valid || text === file.text} onClick={() => saveText(text, result!.name, "application/yaml")}>{say("takeFile")}</button>
        <button type="button" onClick={onDrop}>{say("dropDraft")}</button>
        <span id="draft-keys" className="dim keys">{say("keysCheck")}</span>
      </div>
      <Problems problem={problem} />
      <div role="status">{result && <Found result={result} file={file} onLine={goTo} />}</div>
      <h3>{say("difference")}</h3>
      <Difference before={file.text} after={text} isFile />
      {result?.framework && <h3>{`${say("treeOfDraft")} · ${nameOf(result.framework)}`}</h3>}
      {result?.framework && <div className="tree" role="group" aria-label={say("treeOfDraft")} tabIndex={0}><Tree nodes={result.framework.nodes} /></div>}
    </form>
  );
}

function Found({ result, file, onLine }: { result: CheckedFramework; file: FrameworkFile; onLine: (line: number) => void }) {
  if (result.is_valid) {
    const place = result.name !== `${file.topic}.yaml` ? "placeFurther" : file.is_bundled ? "placeBundled" : "placeOwn";
    return <p className="verdict accept">{`${say("validDraft")} ${result.name}: ${say(place)}`}</p>;
  }
  return (
    <>
      <p className="verdict reject">{say("invalidDraft")}</p>
      <ol className="faults">{result.problems.map((one, place) => <Fault key={place} fault={one} onLine={onLine} />)}</ol>
    </>
  );
}

function Fault({ fault: { place, field, message, line }, onLine }: { fault: FrameworkProblem; onLine: (line: number) => void }) {
  return (
    <li>
      {line > 0 && <button type="button" className="quiet" onClick={() => onLine(line)}>{`${say("line")} ${line}`}</button>}
      <span>{place && <strong>{place} </strong>}{field && <code>{field}</code>}{` ${message}`}</span>
    </li>
  );
}
