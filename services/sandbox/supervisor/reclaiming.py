"""Sessions that end between two of their cells, because people wait for one: those of trainings first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable

from fathom.core.admission import Admission
from fathom.core.call import Lane
from fathom.services.sandbox.ipc.messages import RecordMetric
from fathom.services.sandbox.supervisor.session import Session

# An eighth of the sessions stays with trainings and evaluations however many people come, so that they progress.
FLOOR_SHARE = 8
# Seconds without use after which a session may end: the steps of one call (open, put tables, run cells again) come
# milliseconds apart. One of a person's must be idle for longer than a model usually takes for its next cell, and for
# less than a caller waits for a session.
IDLE_S = {Lane.TRAINING: 0.25, Lane.EVALUATION: 0.25, Lane.INTERACTIVE: 10.0}


class Reclaimer:
    """Observer of the sessions' admission that ends idle sessions while people wait: of later lanes, then of people.

    A session that is held for minutes is used for seconds: between two cells it waits for a model. Whoever has lost it
    opens another one in its turn and runs its cells again, as after any loss of a session; a running cell goes on.
    """

    def __init__(
        self,
        max_sessions: int,
        list_sessions: Callable[[], Iterable[Session]],
        end: Callable[[Session], Coroutine[None, None, None]],
        note: RecordMetric,
    ) -> None:
        """Create with the open sessions; ``end`` makes a session unreachable before it first waits."""
        self._floor = -(-max_sessions // FLOOR_SHARE)
        self._list, self._end, self._note = list_sessions, end, note
        self._ending: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None

    def record_admission(self, lane: Lane, waited_s: float) -> None:
        """Do nothing: ``record_change`` follows."""

    def record_refusal(self, lane: Lane) -> None:
        """Do nothing: the engine counts the sessions that it refuses."""

    def record_change(self, admission: Admission) -> None:
        """End as many idle sessions as people wait for, and look again while they wait for more."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        wanted = admission.waiting[Lane.INTERACTIVE] - len(self._ending)
        if wanted <= 0:
            return
        now = time.monotonic()
        sessions = list(self._list())
        others = [session for session in sessions if session.lane is not Lane.INTERACTIVE]
        idle = [session for session in others if is_idle(session, now)]
        # Evaluations last, since they come before trainings; then what costs least to make again.
        idle.sort(key=lambda session: (session.lane is Lane.EVALUATION, session.cells, -session.opened_at))
        chosen = idle[: max(0, min(wanted, len(others) - self._floor))]
        people = [session for session in sessions if session.lane is Lane.INTERACTIVE and is_idle(session, now)]
        people.sort(key=lambda session: session.last_used_at)
        chosen += people[: wanted - len(chosen)]
        for session in chosen:
            self._reclaim(session, admission)
        if len(chosen) < wanted:
            pause = IDLE_S[Lane.TRAINING]
            self._again = asyncio.get_running_loop().call_later(pause, self.record_change, admission)

    def _reclaim(self, session: Session, admission: Admission) -> None:
        self._note("sessions_reclaimed", session.lane.value, 1)
        # At once and not in the task's first step: a cell that came in between would be killed with its session.
        ending = asyncio.ensure_future(self._end(session))
        self._ending.add(ending)

        def forget(ended: asyncio.Task[None]) -> None:
            self._ending.discard(ended)
            # The place may have gone to one that had waited longer than any person.
            self.record_change(admission)

        ending.add_done_callback(forget)

    async def close(self) -> None:
        """Wait until the sessions that end have ended."""
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)
        if self._again is not None:
            self._again.cancel()


def is_idle(session: Session, now: float) -> bool:
    """Return whether a session has had nothing to do for so long that it may end for somebody who waits."""
    return not session.is_busy and now - session.last_used_at >= IDLE_S[session.lane]
