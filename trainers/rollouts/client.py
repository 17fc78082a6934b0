"""One rollout request to its end: a broken stream is taken up again, a contract error is fatal.

The request id stays the same over all attempts. Planner gives what it has kept under it again and plays the rest
only, so that an attempt costs what was missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Trajectory
from fathom.clients.retry import RetryPolicy
from fathom.clients.services import PlannerClient
from fathom.errors import DeadlineExceeded, DependencyFailed, FathomError, NotReady

FATAL = frozenset(
    {
        "INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "UNIMPLEMENTED", "DATA_LOSS", "PERMISSION_DENIED",
        "ABORTED",
    }
)  # fmt: skip
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


def unheard(count: int) -> None:
    """Nobody wants to know."""


async def collect(
    planner: PlannerClient, request: pb.RolloutRequest, patience: Patience, heard: Heard = unheard
) -> list[Trajectory]:
    """All episodes of a request, by task and sample; ``request.request_id`` must be set.

    Raises what is fatal as it came, ``DeadlineExceeded`` when the time is spent, and ``DependencyFailed`` naming
    the culprit when episodes are still missing after ``attempts`` attempts without progress.
    """
    found: dict[Place, Trajectory] = {}
    try:
        async with asyncio.timeout(patience.timeout_s):
            await _until_whole(planner, request, patience, found, heard)
    except TimeoutError as error:
        wanted = len(request.tasks) * request.group_size
        message = f"rollout {request.request_id} has {len(found)} of {wanted} episodes after {patience.timeout_s:g} s"
        raise DeadlineExceeded(message, metadata={"culprit": "planner"}) from error
    return [found[place] for place in sorted(found)]


async def _until_whole(
    planner: PlannerClient,
    request: pb.RolloutRequest,
    patience: Patience,
    found: dict[Place, Trajectory],
    heard: Heard,
) -> None:
    wanted, barren = len(request.tasks) * request.group_size, 0
    while True:
        before = len(found)
        problem = await _attempt(planner, request, patience.timeout_s, found, heard)
        if len(found) == wanted:
            return
        barren = 0 if len(found) > before else barren + 1
        if barren >= patience.attempts:
            culprit = problem.metadata.get("culprit", "planner")
            missing = f"{wanted - len(found)} of {wanted} episodes of {request.request_id} are missing"
            raise DependencyFailed(culprit, f"{missing} after {barren} attempts: {problem.message}") from problem
        await asyncio.sleep(patience.retry.delay_s(barren + 1, problem))


async def _attempt(
    planner: PlannerClient,
    request: pb.RolloutRequest,
    timeout_s: float,
    found: dict[Place, Trajectory],
    heard: Heard,
) -> FathomError:
    """Adds what one stream gives; the error says why something may be missing still."""
    problem: FathomError = DependencyFailed("planner", "the stream ended before all episodes had come")
    try:
        async with aclosing(planner.rollout(request, timeout_s=timeout_s)) as responses:
            async for response in responses:
                item = response.trajectory
                if item.stop_reason == STOP_REASON_FAILED:
                    problem = NotReady(item.error, metadata={"culprit": item.culprit or "planner"})
                else:
                    found.setdefault((item.task_index, item.sample_index), item)
                    heard(len(found))
    except FathomError as error:
        if error.code in FATAL:
            raise
        problem = error
    return problem
