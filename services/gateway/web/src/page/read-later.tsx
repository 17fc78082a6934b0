// Parts of the page whose files are read when they are first wanted: most visits want none of them.
import { type ComponentType, type LazyExoticComponent, lazy } from "react";

import { word } from "../base/words";
import { readAgain } from "../connection/read-again";

// One that cannot be read says so in its place.
export const readLater = <P = object>(read: () => Promise<ComponentType<P>>): LazyExoticComponent<ComponentType<P>> =>
  lazy(async () => ({ default: await readAgain(read).catch((): ComponentType<P> => Unread) }));

// Its file was replaced by that of a newer version.
function Unread() {
  return <p role="alert">{word("unreadPart")} <button type="button" onClick={() => location.reload()}>{word("reload")}</button></p>;
}
