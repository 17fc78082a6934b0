"""``fathom eval watch`` over the real stack: a process that grades what users ask for, and shows it to Prometheus."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.operations.monitoring.ledger import read
from fathom.services.local import Endpoints
from fathom.transport.bus import open_bus
from fathom.transport.bus.base import KeyValue
from fathom.transport.bus.streams import GRADED
from fathom.transport.sockets import reserved_port
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="package")
ROOT = Path(__file__).resolve().parents[4]
GRADERS = ("tool_steps", "code", "em")
RUNS = 'fathom_grading_runs_total{model="rules"}'
TOOLS = 'fathom_grading_value_count{grader="tool_steps",model="rules"}'


@asynccontextmanager
async def watching(environ: Mapping[str, str]) -> AsyncIterator[str]:
    """The command with variables of its own; gives the URL of its door. It ends by itself on SIGTERM."""
    with reserved_port() as port:
        settings = {"FATHOM_RUNTIME_METRICS_PORT": str(port), "FATHOM_GRADING_GRADERS": json.dumps(GRADERS)}
        command = [sys.executable, "-m", "fathom.cli.main", "eval", "watch"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env={**os.environ, **settings, **environ}, stderr=asyncio.subprocess.PIPE
        )
        try:
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGTERM)
            _, said = await asyncio.wait_for(process.communicate(), 20)
            assert process.returncode == 0, said.decode()
            assert '"stopped"' in said.decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def get(url: str) -> tuple[int, str]:
    """Status and text; status 0 while nobody answers."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()
    except aiohttp.ClientError:
        return 0, ""


async def counts(url: str) -> dict[str, float]:
    """The counters of the watch by name and labels."""
    _, text = await get(f"{url}/metrics")
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("fathom_grading_")]
    return {name: float(value) for name, _, value in lines}


def total(counts: Mapping[str, float], name: str, **labels: str) -> float:
    """Return the sum of a counter over all series that have these labels."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    series = [key for key in counts if key.startswith(f"fathom_grading_{name}{{")]
    return sum(counts[key] for key in series if all(label in key for label in wanted))


async def ask_and_settle(clients: Clients, ends: KeyValue, url: str, run_id: str) -> dict[str, float]:
    """Ask once the watch is ready; return the counters when it has settled this run, and so all before it."""

    async def is_ready() -> bool:
        return (await get(f"{url}/healthz/ready"))[0] == 200

    async def is_settled() -> bool:
        entry = await ends.get(f"ends.{run_id}.0")
        return entry is not None and entry.value is not None and bool(read(entry.key, entry.value)["settled"])

    await eventually(is_ready, within_s=60, every_s=0.1)
    question = "Compare the price performance of Apple and Microsoft in 2019"
    async for _ in run(clients, pb.RunRequest(question=question, request_id=run_id)):
        pass
    await eventually(is_settled, within_s=60, every_s=0.1)
    return await counts(url)


async def test_a_run_is_graded_when_it_has_ended_and_not_again_after_a_restart(
    stack: tuple[Endpoints, Clients], tmp_path: Path
) -> None:
    endpoints, clients = stack
    bus = await open_bus(endpoints.nats, MemoryStore())
    ends = bus.bucket(GRADED)
    as_a_pod = {
        "FATHOM_RUNTIME_BUS_URL": endpoints.nats,
        "FATHOM_RUNTIME_STORE_URL": endpoints.store,
        "FATHOM_RUNTIME_ENDPOINTS": json.dumps(dict(endpoints.services)),
    }
    async with watching(as_a_pod) as url:
        found = await ask_and_settle(clients, ends, url, "run-watched")
        assert (await get(f"{url}/healthz/live"))[0] == 200
        # Other tests have asked this stack before, also other models and for runs that end without an answer.
        runs, none = total(found, "runs_total"), total(found, "runs_total", model="none")
        graded = total(found, "value_count", grader="tool_steps")
        assert found[TOOLS] >= 1
        settled = graded + total(found, "ungraded_total", grader="tool_steps")
        # Whether a run without a model counts as ungraded depends on how far it came: other tests decide that.
        assert runs - none <= settled <= runs
        assert total(found, "value_count", grader="code") >= 2, "a cell each"
        assert total(found, "value_count", grader="em") == 0, "nobody has given a reference"
        assert runs - none <= total(found, "ungraded_total", grader="em") <= runs
        assert found['fathom_grading_value_bucket{grader="tool_steps",le="0.9",model="rules"}'] < found[TOOLS]
    (tmp_path / "endpoints.json").write_text(endpoints.to_json())
    async with watching({"FATHOM_LOCAL_HOME": str(tmp_path)}) as url:
        again = await ask_and_settle(clients, ends, url, "run-watched-again")
        assert (again[RUNS], again[TOOLS]) == (1, 1), "all before it were graded"
    await bus.close()
