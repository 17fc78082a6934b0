"""Following a run from a client: reconnects when the stream breaks while the run goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients.connect import Clients
from fathom.core.errors import DependencyFailed, FathomError, NotFound
from fathom.core.ids import new_id

# Seconds in which a planner that was killed is replaced or the network comes back; its run goes on in another replica
# meanwhile.
PATIENCE_S = 30.0
RUN_TIMEOUT_S = 600.0


async def run(
    clients: Clients, request: pb.RunRequest, *, patience_s: float = PATIENCE_S
) -> AsyncGenerator[pb.RunEvent, None]:
    """Start a run, or join the one with the same ``request_id``, and yield its events to the end."""
    started = pb.RunRequest.FromString(request.SerializeToString())
    started.request_id = request.request_id or new_id("run")
    responses = clients.planner.run(started, timeout_s=RUN_TIMEOUT_S)
    async with aclosing(to_the_end(clients, started.request_id, responses, patience_s)) as events:
        async for event in events:
            yield event


async def resume(
    clients: Clients, request: pb.ResumeRunRequest, *, patience_s: float = PATIENCE_S
) -> AsyncGenerator[pb.RunEvent, None]:
    """Resume a run that ended without an answer and yield its further events to the end."""
    started = pb.ResumeRunRequest.FromString(request.SerializeToString())
    started.request_id = request.request_id or new_id("resume")
    responses = clients.planner.resume_run(started, timeout_s=RUN_TIMEOUT_S)
    async with aclosing(to_the_end(clients, started.run_id, responses, patience_s)) as events:
        async for event in events:
            yield event


async def to_the_end(
    clients: Clients,
    run_id: str,
    begun: AsyncGenerator[pb.RunResponse, None] | AsyncGenerator[pb.ResumeRunResponse, None],
    patience_s: float,
) -> AsyncGenerator[pb.RunEvent, None]:
    """Yield the events of the stream that began a run; if it breaks before the end, go on with ``watch``."""
    last, over, exists = 0, False, False
    try:
        async with aclosing(begun) as responses:
            async for response in responses:
                # What is said while a run waits in the queue has no number of its own.
                last, exists = max(last, response.event.sequence), True
                over = response.event.HasField("finished")
                yield response.event
        if over:  # the server ends the stream at the last end: a resumed run has several
            return
    except FathomError as error:
        # Before its first event nobody knows whether the run exists; the caller's own retry, with the same request_id,
        # is the safe way.
        if not exists or not is_broken(error):
            raise
    async with aclosing(watch(clients, run_id, last, patience_s=patience_s)) as events:
        async for event in events:
            yield event


async def watch(
    clients: Clients, run_id: str, after: int = 0, *, patience_s: float = PATIENCE_S
) -> AsyncGenerator[pb.RunEvent, None]:
    """Yield the events of a run after sequence number ``after``, reconnecting when the stream breaks.

    Raises ``DependencyFailed("planner")`` when nothing could be read for ``patience_s`` seconds.
    """
    last, over = after, False
    broken_since: float | None = None
    while True:
        before = last
        try:
            request = pb.WatchRunRequest(run_id=run_id, after_sequence=last)
            async with aclosing(clients.planner.watch_run(request, timeout_s=RUN_TIMEOUT_S)) as responses:
                async for response in responses:
                    last, broken_since = max(last, response.event.sequence), None
                    over = response.event.HasField("finished")
                    yield response.event
            if over:
                return
            if last == before and not (await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).running:
                return  # the reader had the end already
        except FathomError as error:
            if not is_broken(error):
                raise
            # Counted from the first failure after the last event, so that each event that arrives renews the patience.
            broken_since = broken_since or time.monotonic()
            if time.monotonic() - broken_since > patience_s:
                raise DependencyFailed("planner", f"run {run_id} cannot be followed: {error.message}") from error
        await asyncio.sleep(0.2)


def is_broken(error: FathomError) -> bool:
    """Return True if the stream failed rather than the request."""
    # Deadlines are among them: a stream has one, a run may take longer, and watching again continues where it stood.
    # CANCELLED comes from a server that stops, INTERNAL from a stream that was reset.
    return not isinstance(error, NotFound) and error.code in (
        "UNAVAILABLE",
        "CANCELLED",
        "INTERNAL",
        "DEADLINE_EXCEEDED",
    )
