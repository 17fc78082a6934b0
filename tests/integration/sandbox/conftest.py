"""Engines with real walls, and what the host can see of them."""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

from fathom.obs import Telemetry
from services.sandbox.cgroups import PREFIX
from services.sandbox.config import Config
from services.sandbox.engine import Engine
from services.sandbox.events import Event, Outcome, Output
from services.sandbox.procfs import by_parent
from services.sandbox.session import Session

Run = Callable[..., Coroutine[Any, Any, tuple[str, Outcome]]]


def make_engine(**settings: Any) -> Engine:
    """An engine that is not started yet."""
    return Engine(Config(**settings), Telemetry("sandbox", stream=io.StringIO()))


async def run_cell(session: Session, code: str, wall_ms: int = 0) -> tuple[str, Outcome]:
    """What a cell printed on stdout and stderr, and how it ended."""
    events: list[Event] = [event async for event in session.execute("", code, wall_ms)]
    assert isinstance(events[-1], Outcome)
    return "".join(event.text for event in events if isinstance(event, Output)), events[-1]


def descendants(pid: int) -> list[int]:
    """Living processes that descend from one."""
    children, found = by_parent(), [pid]
    for one in found:
        found += [item.pid for item in children.get(one, [])]
    return found[1:]


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def groups_of_ours(engine: Engine) -> set[str]:
    """Names of the control groups that this process's sessions have now; other services may run beside it."""
    jailer = engine._jailer
    if jailer is None or jailer.cgroups is None:
        return set()
    jailer.cgroups.sweep()
    return {folder.name for folder in jailer.cgroups.leftovers() if folder.name.startswith(f"{PREFIX}{os.getpid()}-")}


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def walls(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walled(walls: str) -> AsyncIterator[Engine]:
    """An engine at one level of isolation; both levels can be built on the machines that this project is tested on."""
    engine = make_engine(
        walls=walls, min_isolation=walls, max_sessions=4, spares=2, processes=24, memory_bytes=400 << 20,
        scratch_bytes=32 << 20, flood_bytes=4 << 20, interrupt_grace_s=0.5,
    )  # fmt: skip
    await engine.start()
    assert engine.report.walls == walls
    yield engine
    await engine.close()
