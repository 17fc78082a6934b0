"""Sessions of trainings and evaluations that end between two of their cells, because people wait for one."""

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
# The steps of one call (open, put tables, run cells again) come milliseconds apart; a model thinks for longer.
IDLE_S = 0.25


class Reclaimer:
    """Observer of the sessions' admission that ends idle sessions of later lanes while people wait.

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
        others = [session for session in self._list() if session.lane is not Lane.INTERACTIVE]
        room = min(wanted, len(others) - self._floor)
        if room <= 0:
            return
        now = time.monotonic()
        idle = [session for session in others if not session.is_busy and now - session.last_used_at >= IDLE_S]
        # Evaluations last, since they come before trainings; then what costs least to make again.
        idle.sort(key=lambda session: (session.lane is Lane.EVALUATION, session.cells, -session.opened_at))
        for session in idle[:room]:
            self._reclaim(session, admission)
        if len(idle) < room:
            self._again = asyncio.get_running_loop().call_later(IDLE_S, self.record_change, admission)

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
