// Whether the gateway is reached: every call says so, and whoever waits for it goes on as soon as it is.

// "reached" and "missed" are the outcomes of calls; "back" follows once what was missed is reached again.
export type Outcome = "reached" | "missed" | "back";

export const reach = new EventTarget();
export const report = (outcome: Outcome): boolean => reach.dispatchEvent(new Event(outcome));

// A proxy answers in the place of a gateway that is away; the gateway's own refusals are problems.
const PROXY_STATUSES = [502, 503, 504];
export const isOfProxy = ({ status, headers }: Response): boolean =>
  PROXY_STATUSES.includes(status) && !(headers.get("content-type") ?? "").includes("problem+json");

// Ends after so many milliseconds, as soon as the gateway is back, or when nobody waits any more.
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resume) => {
    const end = (): void => {
      clearTimeout(timer);
      reach.removeEventListener("back", end);
      signal?.removeEventListener("abort", end);
      resume();
    };
    const timer = setTimeout(end, ms);
    reach.addEventListener("back", end);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
