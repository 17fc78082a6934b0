// What a call of a trace has found and made, with the way to it in the panel.
import { Title, originOf } from "../answer/material";
import { day } from "../base/format";
import { word } from "../base/words";
import { usePage } from "../page/context";
import type { Tab } from "../page/layout";
import type { Hit } from "../run/hits";
import type { Item, ToolRow } from "../run/rows";
import { type Run, kindOf } from "../run/run";

const TABS = { passage: "sources", missing: "sources", sheet: "data", code: "code" } as const satisfies Record<string, Tab>;

export function Results({ row, run, hits }: { row: ToolRow; run: Run; hits: Hit[] }) {
  const made = row.material.map((number) => run.material.get(number)).filter((item) => item !== undefined);
  return (
    <>
      {hits.length > 0 && <ol className="hits" aria-label={word("hits")}>{hits.map((hit, place) => <FoundDocument key={place} hit={hit} run={run} />)}</ol>}
      {made.length > 0 && (
        <ul className="hits made" aria-label={word("made")}>{made.map((item) => (
          <li key={item.number}><Way item={item} run={run} /><span className="dim">{originOf(item)}</span></li>
        ))}</ul>
      )}
    </>
  );
}

// A hit is a document that the run has read only where it was fetched, by this call or by another.
function FoundDocument({ hit, run }: { hit: Hit; run: Run }) {
  const item = run.of("passage").find(({ passage }) => hit.id && passage.id === hit.id);
  const when = Number.isNaN(Date.parse(hit.time)) ? hit.time : day(hit.time);
  const origin = [hit.place || hit.house || item?.passage.source || hit.corpus, hit.rating, when].filter(Boolean).join(" · ");
  return (
    <li>
      {item ? <Way item={item} run={run} name={hit.title} /> : <strong>{hit.title || hit.id}</strong>}
      <span className="dim">{origin}</span>{hit.summary && <p>{hit.summary}</p>}
    </li>
  );
}

// Opens the panel at what is named; the panel shows the run of the trace from then on.
function Way({ item, run, name = "" }: { item: Item; run: Run; name?: string }) {
  const { layout, session } = usePage();
  const tab = TABS[kindOf(item)];
  const open = (): void => {
    const turn = session.turns.find((one) => one.run === run);
    if (turn) session.inspect(turn);
    layout.show(tab, `[data-number="${item.number}"]`);
  };
  return (
    <button type="button" className="way" data-way={item.number} title={`${word("openIn")}: ${word(tab)}`} onClick={open}>
      {`[${item.number}] `}{name || <Title item={item} />}
    </button>
  );
}
