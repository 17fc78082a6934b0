// The right-hand panel: what an answer rests on, in tabs. Where there is no room for it beside the text it lies over it.
import { Dialog, Tabs } from "radix-ui";
import { type ReactNode, useEffect, useRef } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "../page/context";
import { TABS, type Tab } from "../page/layout";
import type { Run } from "../run/run";
import { useFacts } from "./facts";
import { Memory } from "./memory";
import { Tables, useTables } from "./sheets";
import { Code, Sources, Steps } from "./views";

export function Panel() {
  const { layout } = usePage();
  useStore(layout);
  if (!layout.isPanelOver) return layout.isPanelOpen ? <aside id="panel" className="panel" aria-label={word("panel")}><Body /></aside> : null;
  return (
    <Dialog.Root open={layout.isPanelOpen} onOpenChange={(isOpen) => layout.togglePanel(isOpen)}>
      <Dialog.Portal>
        <Dialog.Overlay className="veil" />
        <Dialog.Content asChild aria-describedby={undefined} onEscapeKeyDown={layout.leaveEscape} onCloseAutoFocus={layout.restoreFocus("panel")}>
          <div id="panel" className="panel drawer"><Dialog.Title className="sr-only">{word("panel")}</Dialog.Title><Body /></div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Body() {
  const { session, layout } = usePage();
  useStore(session);
  const turn = session.inspected;
  useStore(turn);
  return <PanelTabs run={turn?.run ?? null} onClose={() => layout.togglePanel(false)} />;
}

function PanelTabs({ run, onClose }: { run: Run | null; onClose: () => void }) {
  const { layout } = usePage();
  useStore(layout);
  const facts = useFacts();
  const body = useRef<HTMLDivElement>(null);
  const { tab, mark } = layout;
  // What somebody wanted to see is brought into sight, once, as soon as it is there.
  useEffect(() => {
    const found = mark ? body.current?.querySelector<HTMLElement>(mark) : null;
    if (!found) return;
    layout.mark = "";
    found.scrollIntoView({ block: "start" });
    found.classList.add("flash");
  });
  // Each view is of one run; memory is of none, and what is written there stays while runs come and go.
  const view = tab === "memory" ? tab : `${tab} ${run?.id ?? ""}`;
  const tables = useTables(run).length;
  const numberOf = (name: Tab): number => ({ memory: facts.length, data: tables }[name as string] ?? (run ? sizeOf(run, name as OfRun) : 0));
  return (
    <Tabs.Root className="tabbed" value={tab} onValueChange={(name) => layout.show(name as Tab)}>
      <div className="tabs">
        <Tabs.List id="tabs" aria-label={word("panel")}>{TABS.map((name) => (
          <Tabs.Trigger key={name} value={name} id={`tab-${name}`} aria-controls="panel-body">
            {word(name)}<span className="n">{numberOf(name) || ""}</span>
          </Tabs.Trigger>
        ))}</Tabs.List>
        <button id="panel-close" type="button" className="quiet" aria-label={word("close")} title={word("close")} onClick={onClose}>✕</button>
      </div>
      <Tabs.Content key={view} ref={body} value={tab} id="panel-body" aria-labelledby={`tab-${tab}`} tabIndex={0}>{viewOf(tab, run)}</Tabs.Content>
    </Tabs.Root>
  );
}

// What shows one run alone.
type OfRun = Exclude<Tab, "memory" | "data">;

function sizeOf(run: Run, tab: OfRun): number {
  return { sources: run.material.size, code: run.of("code").length, trace: run.calls.length }[tab];
}

function viewOf(tab: Tab, run: Run | null): ReactNode {
  if (tab === "memory") return <Memory />;
  if (tab === "data") return <Tables run={run} />;
  const isEmpty = !run || (tab === "trace" ? !run.rows.length && !run.over : !sizeOf(run, tab));
  if (isEmpty) return <p className="dim">{word("nothing")}</p>;
  const View = { sources: Sources, code: Code, trace: Steps }[tab];
  return <View run={run} />;
}
