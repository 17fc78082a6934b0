"""Engines with real walls, and what the host can see of them."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator
from typing import Any

import pandas as pd
import pytest
import pytest_asyncio

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.call import DEFAULT_TENANT
from fathom.core.telemetry import Telemetry
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.supervisor_client import SupervisorClient
from fathom.services.sandbox.ipc.memfd import SealedMemory, create_sealed_memory
from fathom.services.sandbox.metrics import Metrics
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.events import Event, Outcome, Output
from fathom.services.sandbox.supervisor.host import procfs
from fathom.services.sandbox.supervisor.host.cgroups import PREFIX
from fathom.services.sandbox.supervisor.host.procfs import read_snapshot
from fathom.services.sandbox.supervisor.session import Session
from fathom.services.sandbox.supervisor.worker.process import WorkerProcess
from tests.support.tables import to_arrow

FIGURE = "import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(x=list(range({n})), y=list(range({n}))))\n"


def make_telemetry() -> Telemetry:
    """Telemetry that says nothing on the terminal."""
    return Telemetry("sandbox", stream=io.StringIO())


def make_engine(**settings: Any) -> Engine:
    """An engine in this process that is not started yet; without a place it refuses at once."""
    telemetry = make_telemetry()
    # A machine that does many other things takes longer than a service may.
    config = Config(**{"max_waiting": 0, "start_timeout_s": 120.0, **settings})
    return Engine(config, telemetry.log, Metrics.register(telemetry.registry).note)


def make_front(**settings: Any) -> SupervisorClient:
    """A front that has not started its supervisor yet."""
    telemetry = make_telemetry()
    return SupervisorClient(Config(**settings), telemetry.log, Metrics.register(telemetry.registry).note)


async def open_session(front: SupervisorClient) -> str:
    """The id of a new session of a supervisor's."""
    return (await front.open_session(pb.CreateSessionRequest(), DEFAULT_TENANT)).session_id


async def run(session: Session, code: str, request_id: str = "", wall_ms: int = 0) -> tuple[list[Event], Outcome]:
    """A cell's events before its end, and how it ended."""
    events = [event async for event in session.execute(request_id, code, wall_ms)]
    assert isinstance(events[-1], Outcome)
    return events[:-1], events[-1]


async def run_cell(session: Session, code: str, wall_ms: int = 0) -> tuple[str, Outcome]:
    """Return what a cell printed on stdout and stderr, and how it ended."""
    events, outcome = await run(session, code, wall_ms=wall_ms)
    return "".join(event.text for event in events if isinstance(event, Output)), outcome


async def begin_cell(session: Session, code: str, request_id: str = "") -> asyncio.Task[tuple[list[Event], Outcome]]:
    """Start the cell as a task and return it once it has printed its first line, which is added to the code."""
    started = asyncio.Event()

    async def work() -> tuple[list[Event], Outcome]:
        events: list[Event] = []
        async for event in session.execute(request_id, f"print('begun', flush=True)\n{code}", 0):
            events.append(event)
            started.set()
        assert isinstance(events[-1], Outcome)
        return events[:-1], events[-1]

    task = asyncio.create_task(work())
    await started.wait()
    return task


def join_output(events: list[Event], stream: str = "stdout") -> str:
    """Return what was printed on one stream."""
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == stream)


def sheet(frame: pd.DataFrame, name: str = "sheet") -> SealedMemory:
    """A table as sessions take it."""
    return create_sealed_memory(name, to_arrow(frame))


def alive(pid: int) -> bool:
    """Return whether it still runs; one that only waits for its parent to take note does not."""
    # A zombie has a PID and no memory: nothing of it can act.
    return procfs.read_process(pid) is not None


def is_gone(worker: WorkerProcess) -> bool:
    """Neither its processes nor its descriptors are left."""
    return not any(pid and alive(pid) for pid in (worker.pid, worker.init_pid)) and worker.scratch < 0


def descendants(pid: int) -> list[int]:
    """Living processes that descend from one."""
    # The list grows while it is read: children of children follow.
    children, found = read_snapshot().children, [pid]
    for one in found:
        found += [item.pid for item in children.get(one, [])]
    return found[1:]


def open_files() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def groups_of_ours(engine: Engine) -> set[str]:
    """Names of the control groups that this process's sessions have now; other services may run beside it."""
    jailer = engine._jailer
    if jailer is None or jailer.cgroups is None:
        return set()
    # Empty groups are removed late by design; what is left after a sweep is a leak.
    jailer.cgroups.sweep()
    return {folder.name for folder in jailer.cgroups.list_groups() if folder.name.startswith(f"{PREFIX}{os.getpid()}-")}


@pytest.fixture(scope="module", params=["namespace", "landlock"])
def walls(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walled_engine(walls: str) -> AsyncIterator[Engine]:
    """Start an engine at one level of isolation; both levels can be built on the machines that this project is tested on."""
    # Small limits, so that attacks reach them fast; three seconds of grace on a machine that runs two test workers.
    engine = make_engine(
        walls=walls, min_isolation=walls, max_sessions=4, spares=2, processes=24, memory_bytes=400 << 20,
        scratch_bytes=32 << 20, flood_bytes=4 << 20, interrupt_grace_s=3.0,
    )  # fmt: skip
    await engine.start()
    assert engine.report.walls == walls
    yield engine
    await engine.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    """An engine for three sessions, with the walls that a service has by default."""
    engine = make_engine(max_sessions=3, spares=2, interrupt_grace_s=3.0, flood_bytes=4 << 20, processes=24)
    await engine.start()
    yield engine
    await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def session(engine: Engine) -> AsyncIterator[Session]:
    """A session for one test."""
    session = await engine.create()
    yield session
    await engine.close_session(session.id)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting() -> AsyncIterator[Session]:
    """One session for all tests of a module that must leave it alive."""
    # No test here waits for the grace to end, so it may be long enough for any machine.
    engine = make_engine(max_sessions=1, spares=0, interrupt_grace_s=120.0)
    await engine.start()
    yield await engine.create()
    await engine.close()
