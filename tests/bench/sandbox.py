"""Sessions in the full jail against cold ipykernels: ready, execute, density, figures, leaks, and a large frame in.

Needs ``ipykernel`` and ``jupyter_client`` (extra ``dev``). Baselines are named in each line; medians are printed.
"""

from __future__ import annotations

import asyncio
import io
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import DEFAULT_TENANT, Call
from fathom.core.telemetry import Telemetry
from fathom.domain import frames
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.supervisor_client import SupervisorClient
from fathom.services.sandbox.ipc.memfd import create_sealed_memory
from fathom.services.sandbox.metrics import Metrics
from fathom.services.sandbox.server import SandboxServicer, build
from fathom.services.sandbox.supervisor.engine import Engine
from fathom.services.sandbox.supervisor.host.procfs import read_process, read_snapshot
from fathom.services.sandbox.supervisor.session import Session
from fathom.transport.bus import open_bus
from fathom.transport.store import open_store
from fathom.transport.store.refs import to_ref
from tests.support.tables import to_arrow
from tests.support.waiting import eventually

IMPORTS = "import numpy, pandas, plotly.express, plotly.graph_objects, pyarrow"
FIGURE = (
    "import plotly.express as px\npx.line(pd.DataFrame({'day': range(50), 'value': range(50)}), x='day', y='value')"
)
# Few cold kernels, at a second each; a thousand sessions, for leaks of one in hundreds to show.
COLD, FORKED, POOLED, CELLS, SESSIONS, IDLE, FIGURES = 5, 15, 15, 200, 1000, 12, 15
MIB = 1024 * 1024


async def run() -> None:
    kernel_start, kernel_cell = await ipykernel()
    print(f"ipykernel, start and imports     {kernel_start * 1000:8.0f} ms   (the baseline of starting)")
    async with engine(spares=0) as walled:
        print(f"isolation                        {walled.report.level.word}")
        forked = await median(FORKED, lambda: measure_opening(walled))
        print(f"session, forked into the jail    {forked * 1000:8.1f} ms   {kernel_start / forked:6.0f} times faster")
    async with engine(spares=4) as walled:
        pooled = await median(POOLED, lambda: pooled_session(walled))
        print(f"session, from the pool           {pooled * 1000:8.2f} ms   {kernel_start / pooled:6.0f} times faster")
    cell = await over_grpc()
    print(f"1 + 1, ipykernel                 {kernel_cell * 1000:8.2f} ms   (the baseline of executing)")
    print(f"1 + 1, sandbox over gRPC         {cell * 1000:8.2f} ms   {cell / kernel_cell:6.2f} of it")
    await figures()
    await density()
    await many()
    await large_frame()
    await kept_sheets()


async def ipykernel() -> tuple[float, float]:
    """Median seconds from nothing to a kernel with the imports, and of one trivial cell."""
    from jupyter_client.manager import AsyncKernelManager

    starts, cells = [], []
    for _ in range(COLD):
        manager = AsyncKernelManager(kernel_name="python3")
        started = time.perf_counter()
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        await client.execute_interactive(IMPORTS, timeout=60, output_hook=lambda _: None)
        starts.append(time.perf_counter() - started)
        for _ in range(CELLS // COLD):
            started = time.perf_counter()
            await client.execute_interactive("1 + 1", timeout=60, output_hook=lambda _: None)
            cells.append(time.perf_counter() - started)
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
    return statistics.median(starts), statistics.median(cells)


@asynccontextmanager
async def engine(**settings: Any) -> AsyncIterator[Engine]:
    """An engine with the default walls."""
    watched = telemetry()
    walled = Engine(Config(max_sessions=64, **settings), watched.log, Metrics.register(watched.registry).note)
    await walled.start()
    try:
        yield walled
    finally:
        await walled.close()


def telemetry() -> Telemetry:
    return Telemetry("sandbox", log_level="error", stream=io.StringIO())


async def median(rounds: int, once: Callable[[], Awaitable[float]]) -> float:
    return statistics.median([await once() for _ in range(rounds)])


async def measure_opening(walled: Engine) -> float:
    """Return the seconds to a session that is ready."""
    started = time.perf_counter()
    session = await walled.create()
    took = time.perf_counter() - started
    await walled.close_session(session.id)
    return took


async def pooled_session(walled: Engine) -> float:
    """Likewise, with the pool full before."""
    await pool_full(walled)
    return await measure_opening(walled)


async def pool_full(walled: Engine) -> None:
    """Waits for the spares, and until what was just closed is closed."""
    # Spares are made while the processor is idle: measured before, they would be part of the figure.
    await eventually(lambda: len(walled._spares) >= 4)
    await asyncio.sleep(0.3)


async def over_grpc() -> float:
    """Median seconds of one trivial cell over gRPC, all interceptors on."""
    store = open_store("memory://")
    deps = Deps(Clients({}, telemetry()), store, await open_bus("memory://", store), telemetry())
    service = build(Config(), deps)
    times = []
    async with hosting(service, deps, Runtime()) as hosted:
        await hosted.warm
        client = Clients({"sandbox": hosted.url}, telemetry()).sandbox
        session = await client.create_session(pb.CreateSessionRequest(), timeout_s=30.0)
        for _ in range(CELLS):
            started = time.perf_counter()
            request = pb.ExecuteRequest(session_id=session.session_id, code="1 + 1")
            events = [event async for event in client.execute(request, timeout_s=30.0)]
            times.append(time.perf_counter() - started)
            assert events[-1].outcome.result == "2"
    return statistics.median(times)


async def figures() -> None:
    """Processor time of a session's first figure against its second, by the kernel's account."""
    firsts: list[float] = []
    seconds: list[float] = []
    async with engine(spares=0) as walled:
        for _ in range(FIGURES):
            session = await walled.create()
            for times in (firsts, seconds):
                before = processor_s(session)
                await execute(session, FIGURE)
                times.append(processor_s(session) - before)
            await walled.close_session(session.id)
    first, second = statistics.fmean(firsts), statistics.fmean(seconds)
    print(f"second figure of a session       {second * 1000:8.1f} ms   of processor time (the baseline of the first)")
    print(f"first figure of a session        {first * 1000:8.1f} ms   {first / second:6.1f} times that")


def processor_s(session: Session) -> float:
    """Processor time that a session's worker has used; 0 when it has ended."""
    found = read_process(session.worker.pid)
    return found.cpu_s if found is not None else 0.0


async def density() -> None:
    """Private memory of idle sessions that have computed a little."""
    async with engine(spares=0) as walled:
        sessions = [await walled.create() for _ in range(IDLE)]
        for session in sessions:
            await execute(session, "pd.DataFrame({'a': range(1000)}).describe()")
        sizes = [private_bytes(session) / MIB for session in sessions]
        print(f"private memory of an idle session{statistics.median(sizes):8.1f} MiB")


def private_bytes(session: Session) -> int:
    """Bytes that no other process shares, of the session's two processes."""
    total = 0
    for pid in (session.worker.init_pid, session.worker.pid):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * 1024
    return total


async def execute(session: Session, code: str) -> str:
    events = [event async for event in session.execute("", code, 0)]
    return str(getattr(events[-1], "result", ""))


async def many() -> None:
    """Sessions of one cell each, four at a time; what they leave when all is closed."""
    # A first engine opens what stays open once and for all, such as the event loop's own pipes.
    async with engine(spares=4) as walled:
        await one_shot(walled)
    files, processes = len(os.listdir("/proc/self/fd")), descendants()
    async with engine(spares=4) as walled:
        await pool_full(walled)
        gate = asyncio.Semaphore(4)

        async def run_guarded() -> None:
            async with gate:
                await one_shot(walled)

        started = time.perf_counter()
        await asyncio.gather(*(run_guarded() for _ in range(SESSIONS)))
        took = time.perf_counter() - started
        print(f"{SESSIONS:,} sessions of one cell       {SESSIONS / took:8.1f} per second, 4 at a time")
    left = descendants() - processes
    print(f"left over: processes {left}, descriptors {len(os.listdir('/proc/self/fd')) - files}")


def descendants() -> int:
    """Return how many living processes this one has below it."""
    children, found = read_snapshot().children, [os.getpid()]
    for pid in found:
        found += [item.pid for item in children.get(pid, [])]
    return len(found) - 1


async def one_shot(walled: Engine) -> None:
    session = await walled.create()
    assert await execute(session, "int(pd.Series([1, 2]).sum())") == "3"
    await walled.close_session(session.id)


async def large_frame() -> None:
    """One million rows of four columns, from Arrow bytes to a variable, against copying the bytes."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(1_000_000, 4)), columns=list("abcd"))
    arrow = to_arrow(table)
    source = np.frombuffer(arrow, dtype=np.uint8)
    copies: list[float] = []
    injections: list[float] = []
    lazies: list[float] = []
    async with engine(spares=1) as walled:
        session = await walled.create()
        for _ in range(7):
            started = time.perf_counter()
            # The least that any way of bringing a table in can cost.
            source.copy()
            copies.append(time.perf_counter() - started)
            for lazy, times in ((False, injections), (True, lazies)):
                started = time.perf_counter()
                await session.inject("sheet_1", create_sealed_memory("sheet_1", arrow), lazy=lazy)
                times.append(time.perf_counter() - started)
    copied = statistics.median(copies)
    print(f"copying {len(arrow) / MIB:.0f} MiB                   {copied * 1000:8.1f} ms   (the baseline of injecting)")
    for name, times in (("frame of 1,000,000 rows, loaded", injections), ("the same, lazy", lazies)):
        took = statistics.median(times)
        print(f"{name:<32} {took * 1000:8.1f} ms   {took / copied:6.1f} times that")


async def kept_sheets() -> None:
    """Sheets as they lie in the store, as parquet against Arrow: bytes, and the time from the store to a session."""
    front = SupervisorClient(Config(spares=1), telemetry().log, Metrics.register(telemetry().registry).note)
    store = open_store("memory://")
    servicer = SandboxServicer(front, store, Config())
    await front.start()
    try:
        session_id = (await front.open_session(pb.CreateSessionRequest(), DEFAULT_TENANT)).session_id
        for rows, columns in ((250, 3), (1_250, 3), (5_000, 10), (100_000, 4)):
            walk = np.random.default_rng(0).normal(0, 0.01, size=(rows, columns)).cumsum(axis=0)
            prices = pd.DataFrame(np.round(100 * np.exp(walk), 3), columns=[f"E{number}" for number in range(columns)])
            prices.insert(0, "date", pd.date_range("2000-01-03", periods=rows, freq="h"))
            arrow = to_arrow(prices)
            kept = {"arrow": (arrow, frames.ARROW_STREAM)}
            kept["parquet"] = (frames.write_parquet(frames.read_table(arrow)), frames.PARQUET)
            took = {}
            for name, (data, kind) in kept.items():
                ref = to_ref(await store.put(f"sheet.{name}", data, kind))
                request = pb.PutFrameRequest(session_id=session_id, name="sheet_1", ref=ref, lazy=True)
                times = []
                for _ in range(15):
                    started = time.perf_counter()
                    await servicer.PutFrame(request, Call.new())
                    times.append(time.perf_counter() - started)
                took[name] = statistics.median(times) * 1000
            share = len(kept["parquet"][0]) / len(arrow)
            print(
                f"sheet of {rows:>7,} x {columns:<2} as parquet {share:7.2f} of Arrow's bytes, put by reference in"
                f" {took['parquet']:.1f} ms, Arrow in {took['arrow']:.1f}: {took['parquet'] / took['arrow']:.2f} times"
            )
    finally:
        await front.close()
