// Prompts by stage, variant, language and version, with what changed between two, and a draft of the next.
import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { asProblem, call, path } from "../../base/api";
import { saveText } from "../../base/files";
import type { PromptFile, PromptList } from "../../contract/types";
import { Choice } from "../../page/choice";
import { Difference } from "../review/difference";
import { Problems } from "../review/problems";
import { say } from "../words";
import { groupByLine, makeFile } from "./files";

const readPrompts = (): Promise<PromptList> => call<PromptList>(path("prompts"));

export function Prompts() {
  const { data, error, isPending } = useQuery({ queryKey: ["staff", "prompts"], queryFn: readPrompts });
  const [chosen, setChosen] = useState("");
  const lines = groupByLine(data?.prompts ?? []);
  const line = lines.has(chosen) ? chosen : ([...lines.keys()][0] ?? "");
  return (
    <>
      <h2>{say("prompts")}</h2>
      <p className="dim">{say("promptsNote")}</p>
      <Problems problem={error ? asProblem(error) : null} />
      {isPending && <p className="dim" role="status">{say("loading")}</p>}
      {line && <Choice label={say("stage")} value={line} names={[...lines.keys()]} nameOf={(name) => name} onChoose={setChosen} />}
      {line && <Versions key={line} versions={lines.get(line)!} />}
    </>
  );
}

// The versions of one stage in one language; the newest is shown first.
function Versions({ versions }: { versions: PromptFile[] }) {
  const [shown, setShown] = useState(versions.at(-1)!.id);
  const [other, setOther] = useState("");
  const prompt = versions.find(({ id }) => id === shown) ?? versions.at(-1)!;
  const compared = versions.find(({ id }) => id === other && id !== prompt.id);
  const nameOf = (id: string): string => {
    const one = versions.find((known) => known.id === id);
    return one ? `v${one.version}${one.in_use ? ` · ${say("inUse")}` : ""}` : say("noVersion");
  };
  return (
    <section className="prompt" data-prompt={prompt.id}>
      <Choice label={say("version")} value={prompt.id} names={versions.map(({ id }) => id)} nameOf={nameOf} onChoose={setShown} />
      <Choice label={say("against")} value={compared?.id ?? ""} names={["", ...versions.map(({ id }) => id).filter((id) => id !== prompt.id)]} nameOf={nameOf} onChoose={setOther} />
      <p className="dim">{[prompt.id, prompt.output, prompt.sha256.slice(0, 12)].join(" · ")}</p>
      {prompt.issues.length > 0 && <p className="dim">{`${say("issues")}: ${prompt.issues.join(", ")}`}</p>}
      {compared ? <Difference before={compared.body} after={prompt.body} /> : <pre tabIndex={0} aria-label={say("promptText")}>{prompt.body}</pre>}
      <Draft key={prompt.id} prompt={prompt} versions={versions} />
    </section>
  );
}

// A draft is a file for the reader: the planner reads its prompts when it starts, and takes none from a page.
function Draft({ prompt, versions }: { prompt: PromptFile; versions: PromptFile[] }) {
  const [text, setText] = useState<string | null>(null);
  const isDropped = useRef(false);
  if (text === null) return <div className="choice"><button type="button" ref={(button) => { if (isDropped.current) button?.focus(); }} onClick={() => setText(prompt.body)}>{say("draft")}</button></div>;
  const file = makeFile(prompt, versions, text);
  return (
    <div className="draft">
      <label htmlFor="draft">{`${say("draftText")} · ${file.name}`}</label>
      <textarea id="draft" ref={(field) => { if (field && document.activeElement === document.body) field.focus(); }} rows={14} value={text} onChange={(event) => setText(event.target.value)} />
      <Difference before={prompt.body} after={text} isFile />
      <div className="choice">
        <button type="button" className="primary" disabled={text === prompt.body || !text.trim()} onClick={() => saveText(file.content, file.name, "text/markdown")}>{say("takeFile")}</button>
        <button type="button" onClick={() => { isDropped.current = true; setText(null); }}>{say("dropDraft")}</button>
      </div>
    </div>
  );
}
