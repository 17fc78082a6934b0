// The dialogs of the page. What stands in one is read when it is first opened: most visits open none.
import { type ComponentType, type LazyExoticComponent, Suspense } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "./context";
import type { DialogName } from "./layout";
import { readLater } from "./read-later";
import { DialogSheet } from "./sheet";

interface Described {
  // Name of its title among the page's words.
  title: string;
  className?: string;
  Content: LazyExoticComponent<ComponentType>;
}

const DIALOGS: Record<Exclude<DialogName, "">, Described> = {
  palette: { title: "palette", className: "palette", Content: readLater(async () => (await import("./palette")).Palette) },
  settings: { title: "settings", className: "settings-dialog", Content: readLater(async () => (await import("./settings")).Settings) },
  help: { title: "keys", Content: readLater(async () => (await import("./help")).Help) },
  share: { title: "share", className: "share", Content: readLater(async () => (await import("../share/share")).Share) },
  columns: { title: "columnsMeaning", className: "columns-dialog", Content: readLater(async () => (await import("../composer/columns")).ColumnMeanings) },
  repeat: { title: "repeat", className: "repeat-dialog", Content: readLater(async () => (await import("../repeat/repeat")).Repeat) },
};

export function Dialogs() {
  const { preferences } = usePage();
  useStore(preferences);
  return Object.entries(DIALOGS).map(([name, { title, className, Content }]) => (
    <DialogSheet key={name} name={name as DialogName} title={word(title)} className={className}>
      <Suspense fallback={<p className="dim" role="status">{word("readingList")}</p>}><Content /></Suspense>
    </DialogSheet>
  ));
}
