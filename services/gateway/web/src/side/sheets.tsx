// The panel's tab of tables: those of the run, and before them what the reader has pinned in the conversation.
import { Suspense, useEffect, useRef, useState } from "react";

import { LiveTable } from "../answer/tables/table";
import { asProblem } from "../base/api";
import { sizeOf } from "../base/format";
import { word } from "../base/words";
import type { SheetView } from "../contract/types";
import { usePage } from "../page/context";
import { readLater } from "../page/read-later";
import type { SheetItem } from "../run/rows";
import type { Run } from "../run/run";
import { usesSheet } from "../run/uses";
import { Act, TitleField } from "./entry";
import { titleIn, useSheetViews, useShowing } from "./sheet-views";
import { UsedBy } from "./used-by";

// Most readers open no tab of data: what is in it beside tables is read with it.
const BroughtFiles = readLater(async () => (await import("./brought")).BroughtFiles);

interface Listed {
  item: SheetItem;
  // Whether the run that the panel shows has it: numbers and variables are a run's own.
  isOwn: boolean;
}

// Pinned tables first, also those of other turns, each once.
function listTables(run: Run | null, others: Run[], views: SheetView[]): Listed[] {
  const pinned = new Set(views.filter((view) => view.pinned).map((view) => view.sheet_id));
  const own = (run?.of("sheet") ?? []).map((item): Listed => ({ item, isOwn: true }));
  const known = new Set(own.map(({ item }) => item.sheet.id));
  const found = others.flatMap((other) => other.of("sheet")).filter(({ sheet }) => pinned.has(sheet.id) && !known.has(sheet.id) && known.add(sheet.id));
  const listed = [...found.map((item): Listed => ({ item, isOwn: false })), ...own];
  const isPinned = ({ item }: Listed): boolean => pinned.has(item.sheet.id);
  return [...listed.filter(isPinned), ...listed.filter((one) => !isPinned(one))];
}

export function useTables(run: Run | null): Listed[] {
  const { session } = usePage();
  return listTables(run, session.turns.map((turn) => turn.run).filter((other) => other !== run), useSheetViews());
}

export function Tables({ run }: { run: Run | null }) {
  const listed = useTables(run);
  return (
    <>
      {listed.map(({ item, isOwn }) => <Table key={item.sheet.id} item={item} isOwn={isOwn} isOver={!isOwn || Boolean(run?.over)} />)}
      {!listed.length && <p className="dim">{word("nothing")}</p>}
      <Suspense><BroughtFiles /></Suspense>
    </>
  );
}

function Table({ item, isOwn, isOver }: Listed & { isOver: boolean }) {
  const { number, sheet, variable } = item;
  const size = sizeOf(sheet);
  const facts = isOwn ? `[${number}] ${size} · ${word("used")} ${variable}` : `${size} · ${word("earlierTable")}`;
  return (
    <section data-number={isOwn ? number : undefined} data-sheet={sheet.id}>
      <div className="sheet-head"><span className="dim">{facts}</span><span className="spacer" />{isOver && <Showing item={item} />}</div>
      <LiveTable item={item} />
      <UsedBy isUsed={(answered) => usesSheet(answered, sheet.id)} />
    </section>
  );
}

// Renames and pins a table; memory knows the conversation once its first run is over.
function Showing({ item: { sheet } }: { item: SheetItem }) {
  const views = useSheetViews();
  const show = useShowing();
  const [isRenamed, setRenamed] = useState(false);
  const [problem, setProblem] = useState("");
  const place = useRef<HTMLSpanElement>(null);
  const isLeftByKey = useRef(false);
  const view = views.find(({ sheet_id }) => sheet_id === sheet.id) ?? { sheet_id: sheet.id, title: "", pinned: false };
  const title = titleIn(views, sheet);
  useEffect(() => {
    if (isRenamed || !isLeftByKey.current) return;
    isLeftByKey.current = false;
    place.current?.querySelector<HTMLElement>("button:last-of-type")?.focus();
  }, [isRenamed]);
  const change = (changed: Partial<SheetView>): void => {
    show({ ...view, ...changed }).then(() => setProblem(""), (thrown: unknown) => setProblem(asProblem(thrown).message));
  };
  const leave = (isByKey: boolean, written = ""): void => {
    isLeftByKey.current ||= isByKey;
    setRenamed(false);
    if (written && written !== title) change({ title: written === sheet.title ? "" : written });
  };
  return (
    <span ref={place} className="showing">
      {isRenamed ? <TitleField title={title} onLeave={leave} /> : (
        <>
          <Act label={view.pinned ? "unpin" : "pin"} title={title} sign={view.pinned ? "★" : "☆"} onAct={() => change({ pinned: !view.pinned })} />
          <Act label="rename" title={title} sign="✎" onAct={() => setRenamed(true)} />
        </>
      )}
      {problem && <span className="chip bad" role="alert">{problem}</span>}
    </span>
  );
}
