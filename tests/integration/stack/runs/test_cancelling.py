"""A stopped run stops its kernel: the cell that computes for it ends at once, in another process than the planner."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.services.local import LocalSettings, LocalStack
from tests.integration.stack.conftest import prepare
from tests.integration.stack.scripted_model import ScriptedModel
from tests.support.waiting import eventually

TICKS = os.sysconf("SC_CLK_TCK")
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
    # Level by level down from this process: the kernel's worker is a great-grandchild of the supervisor.
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: seconds[pid] for pid in below - {os.getpid()}}


async def busy(before: dict[int, float]) -> int:
    """The process that computes without end."""
    return await eventually(
        # Half a second of processor time since the look before: nothing else in an idle stack takes as much.
        lambda: next((pid for pid, spent in kernels().items() if spent - before.get(pid, 0.0) > 0.5), 0),
        every_s=0.1,
    )


def computes(pid: int) -> bool:
    """Return whether the process is there and wants a processor."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


async def test_a_stopped_run_stops_its_kernel(clients: Clients) -> None:
    kernel, cell_ended = 0, False
    request = pb.RunRequest(question="endless: what was the price of Apple?", model="scripted")
    async for event in run(clients, request):
        if event.HasField("tool_started"):
            kernel = await busy(kernels())
            assert computes(kernel)
            assert (await clients.planner.stop_run(pb.StopRunRequest(run_id=event.run_id))).was_running
        cell_ended |= event.HasField("tool_finished")
    assert event.finished.stop_reason == trajectory.STOP_REASON_STOPPED
    assert not cell_ended, "the run did not wait for the end of the cell's own time"
    await eventually(lambda: not computes(kernel))
