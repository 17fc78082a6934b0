// Frameworks by topic: tree and file, and a draft that the reader of the files has checked before it is taken.
import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { asProblem, call, path } from "../../base/api";
import { readFrameworkTrees } from "../../base/queries";
import type { Framework, FrameworkFile } from "../../contract/types";
import { Tree, nameOf } from "../../library/tree";
import { Choice } from "../../page/choice";
import { Problems } from "../review/problems";
import { say } from "../words";
import { FrameworkDraft } from "./framework-draft";

export function FrameworkFiles() {
  const { data, error, isPending } = useQuery({ queryKey: ["staff", "frameworks"], queryFn: readFrameworkTrees });
  const [chosen, setChosen] = useState("");
  const known = data?.frameworks ?? [];
  const framework = known.find(({ topic }) => topic === chosen) ?? known[0];
  const titleOf = (topic: string): string => `${nameOf(known.find((one) => one.topic === topic)!)} · ${topic}`;
  return (
    <>
      <h2>{say("frameworks")}</h2>
      <p className="dim">{say("frameworksNote")} <a href="frameworks">{say("readFrameworks")}</a></p>
      <Problems problem={error ? asProblem(error) : null} />
      {isPending && <p className="dim" role="status">{say("loading")}</p>}
      {framework && <Choice label={say("topic")} value={framework.topic} names={known.map(({ topic }) => topic)} nameOf={titleOf} onChoose={setChosen} />}
      {framework && <FileOf key={framework.topic} framework={framework} />}
    </>
  );
}

// A draft takes the place of what is shown, and is left as it was begun when the file is read again.
function FileOf({ framework }: { framework: Framework }) {
  const { data: file, error, isPending } = useQuery({
    queryKey: ["staff", "frameworks", framework.topic], queryFn: () => call<FrameworkFile>(path("frameworks", framework.topic, "file")),
  });
  const [begun, setBegun] = useState<FrameworkFile | null>(null);
  const isDropped = useRef(false);
  if (begun) return <FrameworkDraft file={begun} onDrop={() => { isDropped.current = true; setBegun(null); }} />;
  return (
    <section className="framework" data-framework={framework.topic}>
      <p>{framework.about}</p>
      {file && <p className="dim">{[file.name, say(file.is_bundled ? "bundledFile" : "ownFile")].join(" · ")}</p>}
      {file && <div className="choice"><button type="button" ref={(button) => { if (isDropped.current) button?.focus(); }} onClick={() => setBegun(file)}>{say("draftFramework")}</button></div>}
      <Problems problem={error ? asProblem(error) : null} />
      <div className="sheets">
        <section><h3>{say("tree")}</h3><div className="tree" role="group" aria-label={say("tree")} tabIndex={0}><Tree nodes={framework.nodes} /></div></section>
        <section>
          <h3>{say("sourceText")}</h3>
          {isPending && <p className="dim" role="status">{say("loading")}</p>}
          {file && <pre tabIndex={0} role="group" aria-label={say("sourceText")}>{file.text}</pre>}
        </section>
      </div>
    </section>
  );
}
