// The whole page.
import { useEffect } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { Composer, useDrop } from "../composer/composer";
import { OfflineBanner } from "../connection/banner";
import { useFacts, valueOf } from "../side/facts";
import { Panel } from "../side/panel";
import { Sidebar } from "../side/sidebar";
import { PageContext, type PageParts, usePage } from "./context";
import { Dialogs } from "./dialogs";
import { Header } from "./header";
import { useShortcuts } from "./keys";
import { Thread } from "../conversation/thread";
import { ToEnd } from "../conversation/to-end";

export function Page({ parts }: { parts: PageParts }) {
  // A change of language is a change of every word.
  useStore(parts.preferences);
  useShortcuts(parts);
  // Not when the reader comes back to turns that are there.
  useEffect(() => {
    const { session } = parts;
    if (!session.turns.length) void session.resume();
    const follow = (): void => void session.turnToAddress();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [parts]);
  return (
    <PageContext value={parts}>
      <Wishes />
      <a className="skip" href="#question" onClick={(event) => { event.preventDefault(); document.getElementById("question")?.focus(); }}>{word("skip")}</a>
      <Columns />
      <Dialogs />
    </PageContext>
  );
}

// Follows what memory knows of how the reader wants the page.
function Wishes() {
  const { preferences } = usePage();
  const facts = useFacts();
  const [colours, decimals] = [valueOf(facts, "colours"), valueOf(facts, "decimals")];
  useEffect(() => preferences.follow({ colours, decimals }), [preferences, colours, decimals]);
  return null;
}

function Columns() {
  const { layout } = usePage();
  useStore(layout);
  const drop = useDrop();
  const isWide = layout.isPanelOpen && !layout.isPanelOver;
  return (
    <div className={["page", isWide && "panel-open", layout.isEmbedded && "embed"].filter(Boolean).join(" ")}>
      <Header />
      <Sidebar />
      <main {...drop}><OfflineBanner /><Thread /><ToEnd /><Composer /></main>
      <Panel />
    </div>
  );
}
