"""Runs that wait for a service that is away: they return to the queue for a while, which is no attempt."""

from __future__ import annotations

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import FathomError, is_retryable
from fathom.core.retry import RetryPolicy
from fathom.services.planner.episode.fence import LeaseLost
from fathom.services.planner.runs.log.events import EventLog
from fathom.services.planner.runs.log.fold import StepFold

# One second to half a minute: a restart is over soon, and many runs that wait for one service must not flood it.
PAUSES = RetryPolicy(attempts=None, first_delay_s=1.0, max_delay_s=30.0)


class Parked(Exception):
    """The run waits, and readers know it."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(f"the run waits for {delay_s:.1f} s")
        self.delay_s = delay_s


class AttemptsSpent(Exception):
    """So many workers took the run up, and none could even write its end, that no further one tries."""


def is_outage(error: BaseException) -> bool:
    """Return whether a run could not go on because a service was away, full or too late."""
    return isinstance(error, FathomError) and is_retryable(error) and not isinstance(error, LeaseLost)


async def park(events: EventLog, fold: StepFold, patience_s: float, error: FathomError) -> None:
    """Tell readers that the run waits, and raise ``Parked``; return when it has waited for ``patience_s`` seconds."""
    delay = PAUSES.delay_s(fold.parks + 1, error)
    # By the pauses and not by a clock: planners' clocks differ.
    if fold.waited_s + delay > patience_s:
        return
    waiting = pb.RunWaiting(
        expected_ms=int(delay * 1000),
        culprit=error.metadata.get("culprit", ""),
        message=error.message,
        count=fold.parks + 1,
    )
    events.publish(waiting=waiting)
    await events.flush()
    raise Parked(delay)
