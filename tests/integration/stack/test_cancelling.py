"""A stopped run stops its kernel: the cell that computes for it ends at once, in another process than the planner."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from services.local import LocalSettings, LocalStack
from tests.integration.stack.conftest import prepare
from tests.integration.stack.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(120)
TICKS = os.sysconf("SC_CLK_TCK")
BUSY_S, ENDED_S = 20.0, 10.0
ENDLESS = [("python", {"code": "while True:\n    pass"}), ("finish", {"answer": "never said"})]


@pytest_asyncio.fixture
async def clients(tmp_path: Path, tables_dir: Path, corpus_dir: Path) -> AsyncIterator[Clients]:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    async with ScriptedModel({"endless": ENDLESS}).running() as url:
        models = {"scripted": {"engine": "openai", "base_url": url, "model": "scripted", "api_key_env": ""}}
        settings = LocalSettings(home=home, gateway_port=0, models={"rules": {"engine": "rules"}, **models})
        async with LocalStack(settings).running() as endpoints:
            found = connect(endpoints.services)
            yield found
            await found.close()


def kernels() -> dict[int, float]:
    """CPU seconds by process id of everything below this process."""
    parents, seconds = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(folder.name)], seconds[int(folder.name)] = int(fields[1]), int(fields[11]) / TICKS
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: seconds[pid] for pid in below - {os.getpid()}}


async def busy(before: dict[int, float]) -> int:
    """The process that computes without end."""
    ends = time.monotonic() + BUSY_S
    while time.monotonic() < ends:
        await asyncio.sleep(0.1)
        for pid, seconds in kernels().items():
            if seconds - before.get(pid, 0.0) > 0.5:
                return pid
    raise AssertionError("no kernel computes")


async def test_a_stopped_run_stops_its_kernel(clients: Clients) -> None:
    stopped, kernel = 0.0, 0
    request = pb.RunRequest(question="endless: what was the price of Apple?", model="scripted")
    async for event in run(clients, request):
        if event.HasField("tool_started"):
            kernel = await busy(kernels())
            stopped = time.monotonic()
            assert (await clients.planner.stop_run(pb.StopRunRequest(run_id=event.run_id))).was_running
    assert event.finished.stop_reason == trajectory.STOP_REASON_STOPPED
    assert time.monotonic() - stopped < ENDED_S, "long before the cell's own 30 seconds"
    spent = kernels().get(kernel)
    await asyncio.sleep(0.5)
    assert kernels().get(kernel) in (None, spent), "it computes no more"
