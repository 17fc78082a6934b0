"""Stopping of runs, wherever they are: in the queue, at a worker, or delegated by another run."""

from __future__ import annotations

from contextlib import suppress

from fathom.core.errors import NotFound, NotReady
from fathom.services.planner.runs.control import request_stop
from fathom.services.planner.runs.repository import RunRepository
from fathom.transport.bus.base import Bus

MAX_STOP_REQUESTS = 3
"""Attempts to reach a planner that listens for a run, to stop it."""


async def stop_run(bus: Bus, record: RunRepository, run_id: str) -> bool:
    """End a run, immediately when a worker has it, else when one takes it; return whether a worker had it."""
    header = await record.get_header(run_id)
    leg = await record.get_leg(header)
    if await record.get_end(run_id, leg.number) is not None:
        return False
    # Stored before the request: a planner that takes the run between the two finds it.
    await record.put_stop(run_id, leg.number)
    for _ in range(MAX_STOP_REQUESTS):
        try:
            if await request_stop(bus, run_id):
                return True
        except NotReady:  # nobody is working on it
            return False
        # A planner that has lost the run, or has just ended it, answers for it a last time.
        if await record.get_end(run_id, leg.number) is not None:
            return False
    return False


async def stop_children(bus: Bus, record: RunRepository, run_id: str) -> None:
    """Stop the delegated runs, because the ended run does not need them any more."""
    for child in await record.list_children(run_id):
        with suppress(NotFound):  # a worker was lost before it had written the header
            await stop_run(bus, record, child)
