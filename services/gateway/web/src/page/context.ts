// What every component of the page can reach.
import { createContext, useContext } from "react";

import type { NumberForms } from "../answer/tables/number-forms";
import type { Preferences } from "../base/preferences";
import type { Uploads } from "../composer/uploads";
import type { Connection } from "../connection/connection";
import type { Outbox } from "../connection/outbox";
import type { Draft } from "../composer/draft";
import type { Layout } from "./layout";
import type { Session } from "../conversation/session";
import type { Unlisted } from "../conversation/unlisted";

export interface PageParts {
  connection: Connection;
  draft: Draft;
  layout: Layout;
  numbers: NumberForms;
  outbox: Outbox;
  preferences: Preferences;
  session: Session;
  unlisted: Unlisted;
  uploads: Uploads;
}

export const PageContext = createContext<PageParts | null>(null);

export function usePage(): PageParts {
  const parts = useContext(PageContext);
  if (!parts) throw new Error("a part of the page stands outside of it");
  return parts;
}
