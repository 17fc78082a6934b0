// Follows a run's events. The browser reconnects by itself and says which event it saw last; when it
// gives up (an error status), this opens a new stream after the last event, for a bounded time.
import { asProblem, call, path } from "../base/api";
import type { RunEvent } from "../contract/types";

export interface Failure {
  message: string;
  culprit: string;
}

export interface Handlers {
  onEvent: (event: RunEvent) => void;
  onFailure: (failure: Failure) => void;
  onWaiting: (isWaiting: boolean) => void;
}

const PATIENCE_MS = 60_000;
const PAUSE_MS = 1_000;
// A run that was resumed has several ends: what follows the first comes at once.
const END_MS = 400;

export function follow(runId: string, after: number, { onEvent, onFailure, onWaiting }: Handlers): { close: () => void } {
  let last = after;
  let brokenSince: number | null = null;
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let over = false;
  let ending: ReturnType<typeof setTimeout> | undefined;

  const close = (): void => {
    over = true;
    clearTimeout(timer);
    clearTimeout(ending);
    source?.close();
  };

  const fail = (failure: Failure): void => {
    if (over) return;
    close();
    onFailure(failure);
  };

  // A refusal is final; an unreachable gateway or planner is not.
  async function retry(): Promise<void> {
    try {
      await call(path("runs", runId));
    } catch (thrown) {
      const problem = asProblem(thrown);
      if (problem.status >= 400 && problem.status < 500) return fail({ message: problem.message, culprit: problem.culprit });
    }
    if (!over) timer = setTimeout(open, PAUSE_MS);
  }

  function broken(): void {
    if (over) return;
    if (ending) return close();
    brokenSince ??= performance.now();
    onWaiting(true);
    if (performance.now() - brokenSince > PATIENCE_MS) fail({ message: "the event stream was lost", culprit: "gateway" });
    else if (source?.readyState === EventSource.CLOSED) retry();
  }

  function open(): void {
    source = new EventSource(`${path("runs", runId, "events")}?after=${last}`);
    source.addEventListener("error", broken);
    source.addEventListener("failure", (message: MessageEvent<string>) => fail(JSON.parse(message.data) as Failure));
    source.addEventListener("run", (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as RunEvent;
      if (brokenSince !== null) onWaiting(false);
      brokenSince = null;
      last = Math.max(last, Number(event.sequence));
      clearTimeout(ending);
      ending = event.finished ? setTimeout(close, END_MS) : undefined;
      onEvent(event);
    });
  }

  open();
  return { close };
}
