// Whether the gateway can be reached, and since when it cannot. One failed call is no outage, and a browser that has no
// network may still reach a gateway on its own machine: a failure is confirmed by asking whether the gateway lives.
import { isOfProxy, reach, report } from "../base/reach";
import { pauseAfter } from "../base/queries";
import { Store } from "../base/store";

const LIVE = "healthz/live";
const PATIENCE_MS = 5_000;

export async function isReached(): Promise<boolean> {
  try {
    return !isOfProxy(await fetch(LIVE, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) }));
  } catch {
    return false;
  }
}

export class Connection extends Store {
  // The beginning of the outage; null while the gateway is reached.
  since: Date | null = null;
  #isLooking = false;
  #tries = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    super();
    reach.addEventListener("missed", () => void this.#look());
    reach.addEventListener("reached", () => this.#return());
    for (const change of ["offline", "online"]) addEventListener(change, () => void this.#look());
    // Browsers slow the timers of pages that nobody sees.
    document.addEventListener("visibilitychange", () => { if (this.since && document.visibilityState === "visible") void this.#look(); });
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    clearTimeout(this.#timer);
    const began = new Date();
    const isThere = await isReached();
    this.#isLooking = false;
    if (isThere) return this.#return();
    this.since ??= began;
    this.changed();
    this.#timer = setTimeout(() => void this.#look(), pauseAfter(this.#tries));
    this.#tries += 1;
  }

  #return(): void {
    clearTimeout(this.#timer);
    this.#tries = 0;
    if (!this.since) return;
    this.since = null;
    this.changed();
    report("back");
  }
}
