// The page's beginning: makes its parts and draws it.
import { QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";

import { Preferences } from "./base/preferences";
import { makeQueryClient } from "./base/queries";
import { Draft } from "./composer/draft";
import { Uploads } from "./composer/uploads";
import { Layout } from "./page/layout";
import { Root } from "./page/root";
import { Route } from "./page/route";
import { Session } from "./page/session";
import { Unlisted } from "./page/unlisted";

const queries = makeQueryClient();
const [uploads, unlisted] = [new Uploads(), new Unlisted()];
const parts = {
  draft: new Draft(), layout: new Layout(), preferences: new Preferences(), session: new Session(queries, uploads, unlisted), unlisted, uploads,
};

createRoot(document.getElementById("root")!).render(<QueryClientProvider client={queries}><Root parts={parts} route={new Route()} /></QueryClientProvider>);
