"""One rollout request to its end: a broken stream is taken up again, a contract error is fatal.

Fatal is a contract error of the request as well as of one episode, e.g. of a policy version that is served no more:
planner tells its code, and the others of the request are not waited for. An outage's error has no such code.

The request id stays the same over all attempts. Planner gives what it has kept under it again and plays the rest
only, so that an attempt costs what was missing. By way of the queue it is played even where no stream is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Literal

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Trajectory
from fathom.clients.retry import RetryPolicy
from fathom.clients.services import PlannerClient
from fathom.errors import CONTRACT, DeadlineExceeded, DependencyFailed, FailedPrecondition, FathomError, NotReady

FATAL = CONTRACT | {"PERMISSION_DENIED", "ABORTED"}
"""Codes of contract errors: asking again gives the same, so they stop a training and name what is wrong."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Patience:
    """``attempts`` without any progress that are made, ``timeout_s`` for all of them together, pauses between."""

    timeout_s: float = 300.0
    attempts: int = 5
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(first_delay_s=0.2))


Heard = Callable[[int], None]
"""Is told how many episodes of a request are there, whenever there is another one."""
Transport = Literal["stream", "queue"]
STOP_S = 5.0
"""Longest that giving up a queued rollout may take."""


def unheard(count: int) -> None:
    """Nobody wants to know."""


async def collect(
    planner: PlannerClient,
    request: pb.RolloutRequest,
    patience: Patience,
    heard: Heard = unheard,
    transport: Transport = "stream",
) -> list[Trajectory]:
    """All episodes of a request, by task and sample; ``request.request_id`` must be set.

    Raises what is fatal as it came, ``DeadlineExceeded`` when the time is spent, and ``DependencyFailed`` naming
    the culprit when episodes are still missing after ``attempts`` attempts without progress. A queued request that
    is given up is stopped.
    """
    asking = Asking(planner, request, patience, heard, transport)
    try:
        async with asyncio.timeout(patience.timeout_s):
            await asking.until_whole()
    except TimeoutError as error:
        await asking.stop()
        have = f"{len(asking.found)} of {asking.wanted} episodes after {patience.timeout_s:g} s"
        raise DeadlineExceeded(f"rollout {request.request_id} has {have}", metadata={"culprit": "planner"}) from error
    except BaseException:
        await asking.stop()
        raise
    return [asking.found[place] for place in sorted(asking.found)]


@dataclass
class Asking:
    """One request until all its episodes are there."""

    planner: PlannerClient
    request: pb.RolloutRequest
    patience: Patience
    heard: Heard
    transport: Transport
    found: dict[Place, Trajectory] = field(default_factory=dict)
    _sequence: int = 0
    """Of a queued request: the last trajectory that was read."""

    @property
    def wanted(self) -> int:
        """Episodes in all."""
        return len(self.request.tasks) * self.request.group_size

    async def until_whole(self) -> None:
        barren = 0
        while True:
            before = len(self.found)
            problem = await self._attempt()
            if len(self.found) == self.wanted:
                return
            barren = 0 if len(self.found) > before else barren + 1
            if barren >= self.patience.attempts:
                culprit, missing = problem.metadata.get("culprit", "planner"), self.wanted - len(self.found)
                message = f"{missing} of {self.wanted} episodes of {self.request.request_id} are missing"
                raise DependencyFailed(culprit, f"{message} after {barren} attempts: {problem.message}") from problem
            await asyncio.sleep(self.patience.retry.delay_s(barren + 1, problem))

    async def _attempt(self) -> FathomError:
        """Adds what one stream gives; the error says why something may be missing still."""
        problem: FathomError = DependencyFailed("planner", "the stream ended before all episodes had come")
        try:
            async with aclosing(self._queued() if self.transport == "queue" else self._streamed()) as items:
                async for item in items:
                    if item.stop_reason == STOP_REASON_FAILED:
                        refuse(item)
                        problem = NotReady(item.error, metadata={"culprit": item.culprit or "planner"})
                    else:
                        self.found.setdefault((item.task_index, item.sample_index), item)
                        self.heard(len(self.found))
        except FathomError as error:
            if error.code in FATAL or isinstance(error, FinallyFailed):
                raise
            problem = error
        return problem

    async def _streamed(self) -> AsyncGenerator[Trajectory, None]:
        responses = self.planner.rollout(self.request, timeout_s=self.patience.timeout_s)
        async with aclosing(responses):
            async for response in responses:
                yield response.trajectory

    async def _queued(self) -> AsyncGenerator[Trajectory, None]:
        """Raises for an episode that failed: the queue has played it as often as it may."""
        await self.planner.submit_rollout(pb.SubmitRolloutRequest(rollout=self.request))
        watch = pb.WatchRolloutRequest(rollout_id=self.request.request_id, after_sequence=self._sequence)
        responses = self.planner.watch_rollout(watch, timeout_s=self.patience.timeout_s)
        async with aclosing(responses):
            async for response in responses:
                item = response.trajectory
                if item.stop_reason == STOP_REASON_FAILED:
                    refuse(item)
                    raise FinallyFailed(item.culprit or "planner", item.error)
                yield item
                self._sequence = response.sequence

    async def stop(self) -> None:
        """Nobody waits for the rest of a queued request any more."""
        if self.transport == "queue" and len(self.found) < self.wanted:
            with suppress(FathomError):
                stop = pb.StopRolloutRequest(rollout_id=self.request.request_id)
                await self.planner.stop_rollout(stop, timeout_s=STOP_S)


def refuse(item: Trajectory) -> None:
    """Raises ``FailedPrecondition`` for an episode whose failure another attempt would meet again."""
    if item.error_code:
        metadata = {"code": item.error_code, "culprit": item.culprit or "planner", "run_id": item.run_id}
        raise FailedPrecondition(f"episode {item.run_id}: {item.error}", metadata=metadata)


class FinallyFailed(DependencyFailed):
    """A queued episode failed as often as it may."""
