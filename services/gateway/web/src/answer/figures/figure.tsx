// Figures: plotly's, pictures, and HTML.
import { type ReactNode, useEffect, useRef, useState } from "react";

import { asProblem, call, path } from "../../base/api";
import { count } from "../../base/format";
import { useStore } from "../../base/store";
import { word } from "../../base/words";
import type { FigureRef } from "../../contract/types";
import { usePage } from "../../page/context";
import type { CodeItem } from "../../run/rows";
import { asSvg, asTitle, brief, countRows, hasPoints, heightOf, isLong, isSteep, recoloured, themed } from "./drawing";
import { FigureMenu } from "./figure-menu";
import { type Drawing, type Layout, type Place, type Plotly, type Trace, plotlyFor } from "./plotly";
import type { Thinned } from "./thinning";
import { ValuesTable } from "./values";

interface Props {
  runId: string;
  figure: FigureRef;
  // Where the data come from, for the line below the chart.
  sources: string;
  // The way to the code that drew it, where it stands elsewhere.
  onCode?: () => void;
  // What is drawn, where it is not the run's own figure.
  drawing?: Drawing;
}

// Stored as plotly's JSON; a record from before has no type.
const DRAWN = new Set(["", "application/json"]);

export function FigureView(props: Props) {
  return DRAWN.has(props.figure.ref?.content_type ?? "") ? <DrawnFigure {...props} /> : <FramedFigure {...props} />;
}

function FigureFrame({ id, title, tools, note, children, onCode }: {
  id: string; title: string; tools?: ReactNode; note: string; children: ReactNode; onCode?: () => void;
}) {
  return (
    <figure className="plotly-figure" data-figure={id} aria-label={title || id}>
      <figcaption>
        <span className="tag">{id}</span><strong>{title}</strong><span className="spacer" />{tools}
        {onCode && <button type="button" className="quiet" onClick={onCode}>{word("showCode")}</button>}
      </figcaption>
      {children}
      {note && <div className="foot note">{note}</div>}
    </figure>
  );
}

// A picture, or cleaned HTML in a frame without any right: neither can act here.
function FramedFigure({ runId, figure, sources, onCode }: Props) {
  const [isBroken, setBroken] = useState(false);
  const source = path("runs", runId, "figures", figure.id);
  const name = figure.title || figure.id;
  return (
    <FigureFrame id={figure.id} title={figure.title} note={sources} onCode={onCode}>
      <div className="plot">
        {isBroken ? <span className="chip bad">{word("noDrawing")}</span>
          : figure.ref?.content_type === "text/html" ? <HtmlFrame title={name} source={source} />
            : <img src={source} alt={name} className="shown-picture" onError={() => setBroken(true)} />}
      </div>
    </FigureFrame>
  );
}

// As the gateway serves the HTML of a run's figures: styles and pictures of its own, and nothing from anywhere.
const HTML_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

// HTML of a cell from its address, or as it is given: without scripts, an origin or a way out, whatever it holds.
export function HtmlFrame({ title, source, html }: { title: string; source?: string; html?: string }) {
  const given = html !== undefined && `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${HTML_POLICY}">${html}`;
  return <iframe {...(given ? { srcDoc: given } : { src: source })} title={title} sandbox="" className="shown-html" />;
}

// In the place of a figure whose code failed: what went wrong, and the way to its record.
export function BrokenFigure({ item, onCode }: { item: CodeItem; onCode: () => void }) {
  const reason = item.code.traceback.trim().split("\n").at(-1) ?? "";
  return (
    <div className="gaps broken-figure" role="alert">
      <span className="chip bad">{`${word("noDrawing")}: ${reason}`}</span>
      <button type="button" className="quiet" onClick={onCode}>{word("showCode")}</button>
    </div>
  );
}


// A figure with the library that draws it.
interface Loaded {
  library: Plotly;
  layout: Layout;
  traces: Trace[];
  isDated: boolean;
  // Where there are more points than are drawn at once.
  thinned: Thinned | null;
}

async function load(runId: string, id: string, drawing?: Drawing): Promise<Loaded> {
  const content = drawing ?? await call<Drawing>(path("runs", runId, "figures", id));
  const layout = content.layout ?? {};
  const isShared = !layout.hovermode;
  const traces = (content.data ?? []).map(asSvg).map((trace) => (isShared ? brief(trace) : trace));
  const isDated = traces.some((trace) => /^\d{4}-\d\d-\d\d/.test(String(trace.x?.[0])));
  const [library, { thin }] = await Promise.all([plotlyFor(traces), import("./thinning")]);
  return { library, layout, traces, isDated, thinned: thin(traces) };
}

const CONFIG = { displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "", responsive: false, showTips: false };

function DrawnFigure({ runId, figure, sources, onCode, drawing }: Props) {
  const { preferences } = usePage();
  useStore(preferences);
  const place = useRef<Place>(null);
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [problem, setProblem] = useState("");
  const [isLog, setLog] = useState(false);
  const [isOffered, setOffered] = useState(false);
  const [isListed, setListed] = useState(false);
  const [isWhole, setWhole] = useState(false);

  useEffect(() => {
    let isLeft = false;
    load(runId, figure.id, drawing).then((found) => { if (!isLeft) setLoaded(found); })
      .catch((thrown: unknown) => { if (!isLeft) setProblem(asProblem(thrown).message); });
    return () => { isLeft = true; };
  }, [runId, figure.id, drawing]);

  const look = `${preferences.isDark} ${preferences.rise} ${preferences.language}`;
  useEffect(() => {
    const target = place.current;
    if (!loaded || !target) return;
    const { library, layout, isDated, thinned } = loaded;
    const traces = thinned && !isWhole ? thinned.traces : loaded.traces;
    const scaled = isLog ? { ...layout, yaxis: { ...layout.yaxis, type: "log" } } : layout;
    const hasLegend = traces.length > 1 || traces[0]?.type === "pie";
    library.react(target, traces.map(recoloured), themed(scaled, { isDated, hasLegend, hasRanges: isLong(loaded.traces, layout, isDated), heightPx: heightOf(layout, traces), rows: countRows(traces, target.clientWidth) }), CONFIG).then(() => {
      if (!hasPoints(target)) {
        library.purge(target);
        setProblem(word("noPoints"));
      } else if (!isLog) setOffered(layout.meta?.log !== false && isSteep(target, layout));
    }).catch((thrown: unknown) => setProblem(asProblem(thrown).message));
  }, [loaded, isLog, isWhole, look]);

  useEffect(() => {
    const target = place.current;
    if (!loaded || !target || problem) return;
    const watch = new ResizeObserver(() => { if (target.isConnected && target._fullData) loaded.library.Plots.resize(target); });
    watch.observe(target);
    return () => {
      watch.disconnect();
      loaded.library.purge(target);
    };
  }, [loaded, problem]);

  const title = figure.title || (loaded ? asTitle(loaded.layout.title).text ?? "" : "");
  const note = [loaded?.layout.meta?.note, sources].filter(Boolean).join(" · ");
  const names = loaded?.traces.map((trace) => trace.name).filter(Boolean).join(", ");
  const tools = loaded && !problem && (
    <>
      {isOffered && <button type="button" className="quiet log" aria-pressed={isLog} onClick={() => setLog(!isLog)}>{word("logScale")}</button>}
      <button type="button" className="quiet list-values" aria-expanded={isListed} onClick={() => setListed(!isListed)}>{word("values")}</button>
      <FigureMenu library={loaded.library} place={place} title={title || figure.id} notes={[note]} whole={loaded.thinned?.whole} />
    </>
  );
  return (
    <FigureFrame id={figure.id} title={title} tools={tools} note={problem ? "" : note} onCode={onCode}>
      {problem ? <div className="plot broken"><span className="chip bad">{`${figure.id}: ${problem}`}</span></div> : (
        <>
          {!loaded && <div className="plot"><span className="dim">{word("drawing")}</span></div>}
          {loaded && <div ref={place} className="plot" role="group" style={{ height: heightOf(loaded.layout, loaded.traces) }}
            aria-label={[title, names, note].filter(Boolean).join(": ")} />}
          {loaded?.thinned && <ThinnedNotice thinned={loaded.thinned} isWhole={isWhole} onWhole={setWhole} />}
          {loaded && isListed && <ValuesTable place={place.current} title={title || figure.id} whole={loaded.thinned?.whole} />}
        </>
      )}
    </FigureFrame>
  );
}

// How many points are drawn, and the way to all of them.
function ThinnedNotice({ thinned, isWhole, onWhole }: { thinned: Thinned; isWhole: boolean; onWhole: (isWhole: boolean) => void }) {
  const said = isWhole ? word("allPoints").replace("{all}", count(thinned.all))
    : word("thinnedPoints").replace("{shown}", count(thinned.shown)).replace("{all}", count(thinned.all));
  return (
    <div className="foot note thinned">
      <span role="status">{said}</span>
      <button type="button" className="quiet" aria-pressed={isWhole} onClick={() => onWhole(!isWhole)}>{word("drawAll")}</button>
    </div>
  );
}
