// The page's beginning: makes its parts and draws it.
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";

import { NumberForms } from "./answer/tables/number-forms";
import { Preferences } from "./base/preferences";
import { makeQueryClient } from "./base/queries";
import { reach } from "./base/reach";
import { Draft } from "./composer/draft";
import { findLimits } from "./composer/limits";
import { Uploads } from "./composer/uploads";
import { Connection } from "./connection/connection";
import { Outbox } from "./connection/outbox";
import { Layout } from "./page/layout";
import { Root } from "./page/root";
import { Route } from "./page/route";
import { Session } from "./conversation/session";
import { Unlisted } from "./conversation/unlisted";

const queries = makeQueryClient();
const [uploads, unlisted, outbox] = [new Uploads(() => findLimits(queries)), new Unlisted(), new Outbox()];
const parts = {
  connection: new Connection(), draft: new Draft(), layout: new Layout(), numbers: new NumberForms(), outbox, preferences: new Preferences(),
  session: new Session(queries, uploads, unlisted, outbox), unlisted, uploads,
};
// What could not be read while the gateway was away.
reach.addEventListener("back", () => void queries.refetchQueries({ type: "active", predicate: ({ state }) => state.error !== null }));

createRoot(document.getElementById("root")!).render(<QueryClientProvider client={queries}><Root parts={parts} route={new Route()} /></QueryClientProvider>);
