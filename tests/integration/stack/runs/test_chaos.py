"""A process per service tells a question's story as one process does; and each of them is killed during a question:
the run goes on, or fails with a named culprit, in time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.services.local import ORDER, Endpoints, LocalSettings, LocalStack
from tests.integration.stack.conftest import MODELS, prepare
from tests.support.observer import list_logged
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
LIMIT_S = 60.0
TENANT = "story"
"""A tenant of this test alone: what others have concluded on the shared stack is in no question's story."""
# Everything else must be the same word for word, whether services share a process or not.
MOMENTARY = {"conversation_id", "time", "duration_ms", "trajectory", "is_cached"}
"""Chosen at random, read from a clock, said of what others have asked for, or a checksum over such things."""


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def match_by_meaning(clients: Clients) -> None:
    """Wait until the encoder takes part in matches: what is found before differs, and so does what a model is shown."""

    async def has_meaning() -> bool:
        await clients.datafetch.match_indicators(datafetch.MatchIndicatorsRequest(mentions=["gold"]))
        return (await clients.datafetch.search_catalog(datafetch.SearchCatalogRequest(query="gold"))).has_meaning

    await eventually(has_meaning, within_s=LIMIT_S)


async def story(clients: Clients) -> list[dict[str, Any]]:
    """The recorded events of a run of this name, without what is of the moment, such as that it waited for its turn."""
    request = pb.RunRequest(request_id="run-story", question=QUESTION)
    events = list_logged([event async for event in run(clients, request)])
    return [timeless(MessageToDict(event, preserving_proto_field_name=True)) for event in events]


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in MOMENTARY}
    return [timeless(item) for item in value] if isinstance(value, list) else value


@pytest.mark.asyncio(loop_scope="package")
async def test_killing_any_process_during_a_question(
    stack: tuple[Endpoints, Clients], tmp_path: Path, tables_dir: Path, corpus_dir: Path
) -> None:
    shared = connect(stack[0].services, tenant=TENANT)
    await match_by_meaning(shared)
    one_process = await story(shared)
    await shared.close()
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    processes = LocalStack(LocalSettings(home=home, processes=True, gateway_port=0, models=MODELS))
    async with processes.running() as endpoints:
        clients = connect(endpoints.services, tenant=TENANT)
        await match_by_meaning(clients)
        several = await story(clients)
        assert len(several) == len(one_process)
        for recorded, expected in zip(several, one_process, strict=True):
            assert recorded == expected, f"event {expected.get('sequence')}"
        for victim in ("nats", *ORDER):
            started, killed = time.monotonic(), False
            # The only bound on time: a run that neither ends nor fails is what must not happen.
            async with asyncio.timeout(LIMIT_S):
                async for event in run(clients, pb.RunRequest(question=QUESTION)):
                    # In the middle: something is recorded by then, and something is left to do.
                    if not killed and event.HasField("tool_finished"):
                        os.kill(processes.pids()[victim], signal.SIGKILL)
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
            # The next victim falls when this one is back: two losses at once are another test's matter.
            await processes.until_serving(LIMIT_S)
        await clients.close()
        pids = processes.pids()
    assert not [name for name, pid in pids.items() if alive(pid)], "nothing is left behind"
