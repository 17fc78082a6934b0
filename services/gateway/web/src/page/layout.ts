// What of the page is open: the panel and its tab, the conversations where they are a drawer, and the one dialog.
import { Store } from "../base/store";
import type { Upload } from "../composer/uploads";

export const TABS = ["sources", "data", "code", "trace", "memory"] as const;
export type Tab = (typeof TABS)[number];
export type DialogName = "" | "palette" | "settings" | "help" | "share" | "repeat" | "columns";

// What may lie over the page.
export type Surface = "panel" | "sidebar" | "dialog";

// What a new link is to show.
export interface Shared {
  run: string;
  conversation: string;
}

// What is to be asked again, and how it would be asked now.
export interface Repeated {
  run: string;
  describe: () => Promise<object>;
}

// Three columns only where the text keeps its width; below, details and then conversations lie over it.
const THREE_COLUMNS = "(min-width: 1280px)";
const TWO_COLUMNS = "(min-width: 900px)";

export class Layout extends Store {
  readonly #three = matchMedia(THREE_COLUMNS);
  readonly #two = matchMedia(TWO_COLUMNS);
  readonly isEmbedded = new URLSearchParams(location.search).get("embed") === "1";
  tab: Tab = "sources";
  isPanelOpen: boolean;
  isSidebarOpen = false;
  dialog: DialogName = "";
  // What the dialog of links is about; null where it only lists them.
  shared: Shared | null = null;
  // What the dialog of schedules is about; null where it only lists them.
  repeated: Repeated | null = null;
  // The file whose columns the dialog of meanings is about.
  upload: Upload | null = null;
  // The entry of the panel to bring into sight, as a selector.
  mark = "";
  // What had the focus when each of them was opened over it: a dialog may be opened from a drawer.
  readonly #openers: Record<Surface, HTMLElement | null> = { panel: null, sidebar: null, dialog: null };

  constructor() {
    super();
    this.isPanelOpen = this.#three.matches && !this.isEmbedded;
    const follow = (): void => {
      if (this.#two.matches) this.isSidebarOpen = false;
      this.changed();
    };
    for (const query of [this.#three, this.#two]) query.addEventListener("change", follow);
  }

  get isPanelOver(): boolean { return this.isEmbedded || !this.#three.matches; }
  get isSidebarOver(): boolean { return this.isEmbedded || !this.#two.matches; }

  togglePanel(isOpen = !this.isPanelOpen): void {
    this.#remember("panel", isOpen && !this.isPanelOpen);
    this.isPanelOpen = isOpen;
    this.changed();
  }

  toggleSidebar(isOpen = !this.isSidebarOpen): void {
    this.#remember("sidebar", isOpen && !this.isSidebarOpen);
    this.isSidebarOpen = isOpen;
    this.changed();
  }

  open(dialog: DialogName): void {
    this.#remember("dialog", dialog !== "" && this.dialog === "");
    this.dialog = dialog;
    this.changed();
  }

  share(shared: Shared | null): void {
    this.shared = shared;
    this.open("share");
  }

  repeat(repeated: Repeated | null): void {
    this.repeated = repeated;
    this.open("repeat");
  }

  describe(upload: Upload): void {
    this.upload = upload;
    this.open("columns");
  }

  // Opens the panel at a tab, and there at one entry.
  show(tab: Tab, mark = ""): void {
    this.tab = tab;
    this.mark = mark;
    this.togglePanel(true);
  }

  // Turns to a place of the text; the panel goes where it lies over that, and gives the place the focus.
  turnTo(place: HTMLElement): void {
    if (!this.isPanelOver) return place.focus({ preventScroll: true });
    this.#openers.panel = place;
    this.togglePanel(false);
  }

  #remember(surface: Surface, isOpening: boolean): void {
    if (isOpening && document.activeElement instanceof HTMLElement) this.#openers[surface] = document.activeElement;
  }

  // A field that takes Escape itself keeps the drawer around it open.
  readonly leaveEscape = (event: KeyboardEvent): void => {
    if (event.target instanceof Element && event.target.matches("[data-escape]")) event.preventDefault();
  };

  // Gives the focus back to what opened the thing that is closed; for Radix, which knows its own triggers only.
  readonly restoreFocus = (surface: Surface) => (event: Event): void => {
    event.preventDefault();
    const opener = this.#openers[surface];
    this.#openers[surface] = null;
    const isThere = opener?.isConnected && opener !== document.body && opener.checkVisibility();
    (isThere ? opener : document.getElementById("question"))?.focus();
  };
}
