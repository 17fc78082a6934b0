// Follows a run's events. The browser reconnects by itself and says which event it saw last; when it gives up (an error
// status) or the stream falls silent, this asks for the run's record: one that is over is shown from it, the stream of any
// other is opened again.
// It never stops trying while the page is open: a run that was finished meanwhile must not be called a failure.
import { asProblem, call, path } from "../base/api";
import { reach, report } from "../base/reach";
import type { RunEvent, RunRecord } from "../contract/types";

export interface Failure {
  message: string;
  culprit: string;
}

export interface Handlers {
  onEvent: (event: RunEvent) => void;
  // The run ended while its events could not be followed.
  onRecord: (record: RunRecord) => void;
  // There is no such run, or it is another's.
  onFailure: (failure: Failure) => void;
  onWaiting: (isWaiting: boolean) => void;
}

const PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
// Of the gateway's pings, which come every ten seconds at least, three are missing: no browser is told of a machine that is
// gone, and it would wait at a connection without another end.
const SILENCE_MS = 30_000;
// A run that was resumed has several ends: what follows the first comes at once.
const END_MS = 400;

export function follow(runId: string, after: number, handlers: Handlers): { close: () => void } {
  let last = after;
  let source: EventSource | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // What is done when the pause is over.
  let next: (() => unknown) | undefined;
  let ending: ReturnType<typeof setTimeout> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  let tries = 0;
  // The number behind which one was missing once: what is still missing when it is asked for again is gone.
  let doubted = -1;

  const close = (): void => {
    isOver = true;
    clearTimeout(timer);
    clearTimeout(ending);
    hangUp();
    reach.removeEventListener("back", goOn);
  };

  function hangUp(): void {
    clearTimeout(silence);
    source?.close();
  }

  // At each sign of life.
  function hear(): void {
    clearTimeout(silence);
    silence = setTimeout(() => interrupt(true), SILENCE_MS);
  }

  const wait = (act: () => unknown): void => {
    next = act;
    timer = setTimeout(goOn, Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** tries));
    tries += 1;
  };

  // At the end of a pause, or before it when the gateway is back.
  function goOn(): void {
    clearTimeout(timer);
    const act = next;
    next = undefined;
    act?.();
  }

  async function look(): Promise<void> {
    try {
      const record = await call<RunRecord>(path("runs", runId), { signal: AbortSignal.timeout(SILENCE_MS) });
      if (isOver) return;
      if (record.running) return wait(open);
      close();
      handlers.onRecord(record);
    } catch (thrown) {
      const problem = asProblem(thrown);
      if (isOver) return;
      // A refusal is final; an unreachable gateway or planner is not.
      if (problem.status < 400 || problem.status >= 500) return wait(look);
      close();
      handlers.onFailure({ message: problem.message, culprit: problem.culprit });
    }
  }

  function interrupt(isClosed: boolean): void {
    if (isOver) return;
    if (ending) return close();
    handlers.onWaiting(true);
    // The browser tries again by itself; whether the gateway is away at all is for the page to find out.
    if (!isClosed) return void report("missed");
    hangUp();
    void look();
  }

  function take(message: MessageEvent<string>): void {
    const event = JSON.parse(message.data) as RunEvent;
    hear();
    handlers.onWaiting(false);
    tries = 0;
    const sequence = Number(event.sequence);
    // Events are numbered without gaps: one that comes too early would be taken for the newest, and those before it lost.
    if (sequence > last + 1 && doubted !== last) {
      doubted = last;
      source?.close();
      return open();
    }
    last = Math.max(last, sequence);
    clearTimeout(ending);
    ending = event.finished ? setTimeout(close, END_MS) : undefined;
    handlers.onEvent(event);
  }

  function open(): void {
    const opened = new EventSource(`${path("runs", runId, "events")}?after=${last}`);
    source = opened;
    hear();
    // A run may say nothing for long.
    opened.addEventListener("open", () => {
      hear();
      handlers.onWaiting(false);
    });
    opened.addEventListener("ping", hear);
    opened.addEventListener("error", () => interrupt(opened.readyState === EventSource.CLOSED));
    // The gateway has lost the planner, which may be back.
    opened.addEventListener("failure", () => interrupt(true));
    opened.addEventListener("run", take);
  }

  reach.addEventListener("back", goOn);
  open();
  return { close };
}
