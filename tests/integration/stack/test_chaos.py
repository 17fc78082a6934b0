"""Each process of a running stack is killed during a question: the run goes on, or fails with a named culprit, in time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import connect
from fathom.clients.runs import run
from services.local import ORDER, LocalSettings, LocalStack
from tests.integration.stack.conftest import MODELS, prepare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
LIMIT_S = 60.0


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_killing_any_process_during_a_question(tmp_path: Path, tables_dir: Path, corpus_dir: Path) -> None:
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    stack = LocalStack(LocalSettings(home=home, processes=True, gateway_port=0, models=MODELS))
    async with stack.running() as endpoints:
        clients = connect(endpoints.services)
        for victim in ("nats", *ORDER):
            started, killed = time.monotonic(), False
            async with asyncio.timeout(LIMIT_S):
                async for event in run(clients, pb.RunRequest(question=QUESTION)):
                    if not killed and event.HasField("tool_finished"):
                        os.kill(stack.pids()[victim], signal.SIGKILL)
                        killed = True
            finished = event.finished
            outcome = (
                f"{victim}: {trajectory.StopReason.Name(finished.stop_reason)} {finished.culprit} {finished.error}"
            )
            print(f"{outcome} after {time.monotonic() - started:.1f} s")
            assert killed
            if finished.stop_reason == trajectory.STOP_REASON_FINISHED:
                assert finished.HasField("answer"), outcome
            else:
                assert finished.culprit, outcome
            await stack.until_serving(LIMIT_S)
        await clients.close()
        pids = stack.pids()
    assert not [name for name, pid in pids.items() if alive(pid)], "nothing is left behind"
