"""A session whose processes the kernel does not end: nobody waits for it for ever, and nobody gets what it still has."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.core.errors import NotFound
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.supervisor.engine import CLOSE_S
from fathom.services.sandbox.supervisor.worker.process import END_S, STUCK_S, WorkerProcess
from tests.integration.sandbox.conftest import make_engine
from tests.support.clock import loop_time, pass_time, simulate_time

UID = 61_184


class Init:
    """An init process that ends when the test says so, whatever it is sent."""

    def __init__(self) -> None:
        self.init_pid, self.code = 0, None
        self.ended = asyncio.Event()
        self.orders: list[tuple[str, float]] = []

    def end(self) -> None:
        self.orders.append(("end", loop_time()))

    def kill(self) -> None:
        self.orders.append(("kill", loop_time()))

    def close(self) -> None:
        self.orders.append(("close", loop_time()))


def make_worker(given_back: list[int]) -> tuple[WorkerProcess, Init]:
    """Return a worker that has been started, without the processes."""
    jailer: Any = SimpleNamespace(walls="landlock", cgroups=None, uids=SimpleNamespace(give_back=given_back.append))
    worker, init = WorkerProcess(Config(), jailer), Init()
    worker._init.close()
    worker._init = init  # type: ignore[assignment]
    worker._uid = UID
    worker._waiting = asyncio.create_task(worker._wait())
    return worker, init


@simulate_time
async def test_who_closes_a_session_waits_no_longer_than_the_bound_and_its_place_does() -> None:
    released: list[float] = []
    ended = asyncio.Event()
    engine = make_engine()
    worker = SimpleNamespace(is_stuck=False)
    engine._sessions["slow"] = SimpleNamespace(id="slow", worker=worker, close=ended.wait)  # type: ignore[assignment]
    engine._places["slow"] = SimpleNamespace(release=lambda: released.append(loop_time()))  # type: ignore[assignment]
    await engine.close_session("slow")
    # The memory of its processes is still theirs, and the next session needs it.
    assert (loop_time(), released) == (CLOSE_S, [])
    with pytest.raises(NotFound):
        await engine.close_session("slow")
    ended.set()
    await pass_time(1.0)
    assert len(released) == 1


@simulate_time
async def test_a_worker_that_ends_at_once_is_released_at_once() -> None:
    given_back: list[int] = []
    worker, init = make_worker(given_back)
    init.ended.set()
    await worker.end()
    assert ([order for order, _ in init.orders], given_back, worker.is_stuck) == (["end", "close"], [UID], False)


@simulate_time
async def test_a_worker_that_the_kernel_keeps_is_given_up_and_released_when_it_ends() -> None:
    given_back: list[int] = []
    worker, init = make_worker(given_back)
    # All who wait for its end go on together, a cell that still runs among them.
    await asyncio.gather(worker.end(), worker.end(), worker.exited.wait())
    assert loop_time() == END_S + STUCK_S
    assert init.orders == [("end", 0.0), ("kill", END_S)]
    assert (worker.is_stuck, given_back) == (True, [])
    await pass_time(600.0)
    assert given_back == []
    init.ended.set()
    await pass_time(1.0)
    assert ([order for order, _ in init.orders][2:], given_back) == (["close"], [UID])
