// Shows the page, or the staff's area, whose code is read when it is first wanted.
import { Suspense, lazy } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { readAgain } from "../connection/read-again";
import { PageContext, type PageParts } from "./context";
import { Page } from "./page";
import type { Route } from "./route";

const Staff = lazy(() => readAgain(() => import("../staff/staff")).catch(() => ({ default: Unread })));

export function Root({ parts, route }: { parts: PageParts; route: Route }) {
  useStore(route);
  if (!route.isStaff) return <Page parts={parts} />;
  return (
    <PageContext value={parts}>
      <Suspense fallback={<p className="opening" role="status">{word("openingReview")}</p>}><Staff route={route} /></Suspense>
    </PageContext>
  );
}

// The files of the area were replaced by those of a newer version.
function Unread({ route }: { route: Route }) {
  return (
    <main className="opening">
      <p role="alert">{word("unreadReview")}</p>
      <button type="button" onClick={() => location.reload()}>{word("reload")}</button> <a href={route.back}>Fathom</a>
    </main>
  );
}
