// Follows a run's events. The browser reconnects by itself and says which event it saw last; when it
// gives up (an error status), this opens a new stream after the last event, for a bounded time.
import { call, path } from "../base/api";

const PATIENCE_MS = 60_000;
const PAUSE_MS = 1_000;
// A run that was resumed has several ends: what follows the first comes at once.
const END_MS = 400;

export function follow(runId, after, { onEvent, onFailure, onWaiting }) {
  let last = after;
  let brokenSince = null;
  let source = null;
  let timer = 0;
  let over = false;
  let ending = 0;

  const close = () => {
    over = true;
    clearTimeout(timer);
    clearTimeout(ending);
    source?.close();
  };

  const fail = (failure) => {
    if (over) return;
    close();
    onFailure(failure);
  };

  // A refusal is final; an unreachable gateway or planner is not.
  async function retry() {
    try {
      await call(path("runs", runId));
    } catch (problem) {
      if (problem.status >= 400 && problem.status < 500) return fail({ message: problem.message, culprit: problem.culprit });
    }
    if (!over) timer = setTimeout(open, PAUSE_MS);
  }

  function broken() {
    if (over) return;
    if (ending) return close();
    brokenSince ??= performance.now();
    onWaiting(true);
    if (performance.now() - brokenSince > PATIENCE_MS) fail({ message: "the event stream was lost", culprit: "gateway" });
    else if (source.readyState === EventSource.CLOSED) retry();
  }

  function open() {
    source = new EventSource(`${path("runs", runId, "events")}?after=${last}`);
    source.addEventListener("error", broken);
    source.addEventListener("failure", (message) => fail(JSON.parse(message.data)));
    source.addEventListener("run", (message) => {
      const event = JSON.parse(message.data);
      if (brokenSince !== null) onWaiting(false);
      brokenSince = null;
      last = Math.max(last, Number(event.sequence));
      clearTimeout(ending);
      ending = event.finished ? setTimeout(close, END_MS) : 0;
      onEvent(event);
    });
  }

  open();
  return { close };
}
