"""``fathom eval watch`` over the real stack: a process that grades what users ask for, and shows it to Prometheus."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.rpc.sockets import reserved_port
from services.local import Endpoints

pytestmark = pytest.mark.asyncio(loop_scope="package")
ROOT = Path(__file__).resolve().parents[3]
GRADERS = ("tool_steps", "code", "em")


@asynccontextmanager
async def watching(endpoints: Endpoints) -> AsyncIterator[str]:
    """The command as the chart's pod runs it; gives the URL of its door. It ends by itself on SIGTERM."""
    with reserved_port() as port:
        environ = {
            **os.environ,
            "FATHOM_RUNTIME_BUS_URL": endpoints.nats,
            "FATHOM_RUNTIME_STORE_URL": endpoints.store,
            "FATHOM_RUNTIME_ENDPOINTS": json.dumps(dict(endpoints.services)),
            "FATHOM_RUNTIME_METRICS_PORT": str(port),
            "FATHOM_GRADING_GRADERS": json.dumps(GRADERS),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fathom.cli.main",
            "eval",
            "watch",
            cwd=ROOT,
            env=environ,
            stderr=asyncio.subprocess.PIPE,
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


async def caught_up(url: str) -> dict[str, float]:
    """The counters once it is ready and no end is left."""
    async with asyncio.timeout(60):
        while True:
            found = await counts(url)
            if (await get(f"{url}/healthz/ready"))[0] == 200 and found.get("fathom_grading_behind_seconds") == 0.0:
                return found
            await asyncio.sleep(0.1)


async def test_a_run_is_graded_when_it_has_ended_and_not_again_after_a_restart(
    stack: tuple[Endpoints, Clients],
) -> None:
    endpoints, clients = stack
    runs, tools = (
        'fathom_grading_runs_total{model="rules"}',
        'fathom_grading_value_count{grader="tool_steps",model="rules"}',
    )
    async with watching(endpoints) as url:
        async with asyncio.timeout(60):
            while (await get(f"{url}/healthz/ready"))[0] != 200:
                await asyncio.sleep(0.1)
        assert (await get(f"{url}/healthz/live"))[0] == 200
        question = "Compare the price performance of Apple and Microsoft in 2019"
        async for _ in run(clients, pb.RunRequest(question=question, request_id="run-watched")):
            pass
        async with asyncio.timeout(60):
            while (found := await counts(url)).get(runs, 0) < 1 or found["fathom_grading_behind_seconds"]:
                await asyncio.sleep(0.1)
        assert found[tools] == found[runs]
        assert found['fathom_grading_value_count{grader="code",model="rules"}'] >= 2, "a cell each"
        assert found['fathom_grading_ungraded_total{grader="em",reason="no_reference"}'] == found[runs]
        assert found['fathom_grading_value_bucket{grader="tool_steps",le="0.9",model="rules"}'] < found[tools]
    async with watching(endpoints) as url:
        again = await caught_up(url)
        assert not [name for name in again if name.startswith("fathom_grading_runs_total")], "all were graded before"
