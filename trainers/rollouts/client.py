"""Client side of one rollout request: resume broken streams, fail at once on non-retryable errors.

Non-retryable errors may concern the request or a single episode (e.g. a policy version no longer served): the planner
reports the code, and the remaining episodes are not awaited. Transient errors carry no such code.

The request id stays the same over all attempts. The planner returns the episodes stored under it and plays only the
missing ones. Queued requests are played even while no stream is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Literal

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Trajectory
from fathom.clients.services import PlannerClient
from fathom.core.errors import (
    NON_RETRYABLE,
    DeadlineExceeded,
    DependencyFailed,
    FailedPrecondition,
    FathomError,
    NotReady,
)
from fathom.core.retry import RetryPolicy

FATAL = NON_RETRYABLE | {"ABORTED"}
"""Codes of non-retryable errors: they stop the training and name the cause."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Patience:
    """Retry limits of one request.

    ``attempts`` is the number of consecutive attempts without progress, ``timeout_s`` bounds all attempts together, and
    ``retry`` gives the pauses between them. Attempts are not counted out before ``outage_s`` seconds without progress:
    a service that is restarted on a slow machine takes longer than a few attempts.
    """

    timeout_s: float = 300.0
    attempts: int = 5
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(first_delay_s=0.2))
    outage_s: float = 0.0


ProgressCallback = Callable[[int], None]
"""Progress callback: receives the number of episodes collected so far whenever another one arrives."""
Transport = Literal["stream", "queue"]
Episodes = AsyncGenerator[pb.RolloutResponse, None] | AsyncGenerator[pb.WatchRolloutResponse, None]
STOP_S = 5.0
"""Time limit for cancelling a queued rollout, in seconds."""


def ignore_progress(count: int) -> None:
    """Ignore progress: the default callback."""


async def collect(
    planner: PlannerClient,
    request: pb.RolloutRequest,
    patience: Patience,
    heard: ProgressCallback = ignore_progress,
    transport: Transport = "stream",
) -> list[Trajectory]:
    """Collect all episodes of a request, ordered by task and sample; ``request.request_id`` must be set.

    Raises non-retryable errors unchanged, ``DeadlineExceeded`` after ``patience.timeout_s``, and ``DependencyFailed``
    naming the culprit when episodes are still missing after ``attempts`` attempts without progress. On any error, a
    queued request is cancelled.
    """
    asking = RolloutCall(planner, request, patience, heard, transport)
    try:
        async with asyncio.timeout(patience.timeout_s):
            await asking.until_whole()
    except TimeoutError as error:
        await asking.stop()
        have = f"{len(asking.found)} of {asking.episode_count} episodes after {patience.timeout_s:g} s"
        raise DeadlineExceeded(f"rollout {request.request_id} has {have}", metadata={"culprit": "planner"}) from error
    except BaseException:
        # Also a cancelled training: a queued request would otherwise be played to its end for nobody.
        await asking.stop()
        raise
    return [asking.found[place] for place in sorted(asking.found)]


@dataclass
class RolloutCall:
    """State of one request until all its episodes have arrived."""

    planner: PlannerClient
    request: pb.RolloutRequest
    patience: Patience
    heard: ProgressCallback
    transport: Transport
    found: dict[Place, Trajectory] = field(default_factory=dict)
    _sequence: int = 0
    """Sequence number of the last trajectory read; queued requests only."""

    @property
    def episode_count(self) -> int:
        """Return the number of episodes in total."""
        return len(self.request.tasks) * self.request.group_size

    async def until_whole(self) -> None:
        """Make attempts until every episode has arrived; see ``collect`` for the errors raised."""
        clock = asyncio.get_running_loop().time
        barren, progressed = 0, clock()
        while True:
            before = len(self.found)
            problem = await self._attempt()
            if len(self.found) == self.episode_count:
                return
            # Consecutive attempts without a new episode; any progress starts the count again, so that a long request
            # over a flaky connection is not given up while it advances.
            if len(self.found) > before:
                barren, progressed = 0, clock()
            else:
                barren += 1
            if barren >= self.patience.attempts and clock() - progressed >= self.patience.outage_s:
                culprit, missing = problem.metadata.get("culprit", "planner"), self.episode_count - len(self.found)
                message = f"{missing} of {self.episode_count} episodes of {self.request.request_id} are missing"
                raise DependencyFailed(culprit, f"{message} after {barren} attempts: {problem.message}") from problem
            # The error may say itself how long to wait; otherwise pauses grow with the attempts in vain.
            await asyncio.sleep(self.patience.retry.delay_s(barren + 1, problem))

    async def _attempt(self) -> FathomError:
        """Add the episodes of one stream; return the error that explains why some may still be missing."""
        problem: FathomError = DependencyFailed("planner", "the stream ended before all episodes had come")
        is_queued = self.transport == "queue"
        try:
            async with aclosing(await self._watch_queue() if is_queued else self._open_stream()) as responses:
                async for response in responses:
                    item = response.trajectory
                    if item.stop_reason == STOP_REASON_FAILED:
                        refuse(item)
                        if is_queued:
                            # The queue has already made all its attempts.
                            raise FinallyFailed(item.culprit or "planner", item.error)
                        problem = NotReady(item.error, metadata={"culprit": item.culprit or "planner"})
                        continue
                    # A resumed stream may repeat episodes: the first copy stays, which is the one that progress was
                    # reported for.
                    self.found.setdefault((item.task_index, item.sample_index), item)
                    self.heard(len(self.found))
                    if isinstance(response, pb.WatchRolloutResponse):
                        # Last: a trajectory that was not taken is read again.
                        self._sequence = response.sequence
        except FathomError as error:
            if error.code in FATAL or isinstance(error, FinallyFailed):
                raise
            problem = error
        return problem

    def _open_stream(self) -> Episodes:
        return self.planner.rollout(self.request, timeout_s=self.patience.timeout_s)

    async def _watch_queue(self) -> Episodes:
        """Submit the request to the queue, and return its trajectories after the last one read."""
        # Submitting is idempotent by the request's id: each attempt may do so again without playing anything twice.
        await self.planner.submit_rollout(pb.SubmitRolloutRequest(rollout=self.request))
        watch = pb.WatchRolloutRequest(rollout_id=self.request.request_id, after_sequence=self._sequence)
        return self.planner.watch_rollout(watch, timeout_s=self.patience.timeout_s)

    async def stop(self) -> None:
        """Cancel the rest of a queued request, ignoring errors."""
        if self.transport == "queue" and len(self.found) < self.episode_count:
            # Whatever ended the rollout is what the caller has to hear of; a queue that cannot be stopped ends by
            # itself.
            with suppress(FathomError):
                stop = pb.StopRolloutRequest(rollout_id=self.request.request_id)
                await self.planner.stop_rollout(stop, timeout_s=STOP_S)


def refuse(item: Trajectory) -> None:
    """Raise ``FailedPrecondition`` for an episode whose failure is not retryable (it has an error code)."""
    if item.error_code:
        metadata = {"code": item.error_code, "culprit": item.culprit or "planner", "run_id": item.run_id}
        raise FailedPrecondition(f"episode {item.run_id}: {item.error}", metadata=metadata)


class FinallyFailed(DependencyFailed):
    """A queued episode failed in all its attempts."""
