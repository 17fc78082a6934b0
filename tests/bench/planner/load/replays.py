"""Replays of one recorded episode with a search, a data query and a cell: how many hashes, and what they cost."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import connect
from fathom.services.local import LocalSettings, LocalStack
from tests.bench.chaos.chaos import HOME, lay_out
from tests.integration.stack.runs.test_recordings import QUESTION, SCRIPTS, play, rollout
from tests.integration.stack.scripted_model import ScriptedModel, entry

REPLAYS, NAME = 20, "bench"


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    door = ScriptedModel()
    with tempfile.TemporaryDirectory() as folder, door.telling(SCRIPTS) as model:
        async with door.running() as address:
            models = {"rules": {"engine": "rules"}, "scripted": entry(address)}
            home = lay_out(Path(folder) / "home", HOME)
            async with LocalStack(LocalSettings(home=home, gateway_port=0, models=models)).running() as endpoints:
                clients = connect(endpoints.services)
                started = time.perf_counter()
                recorded = await play(clients, rollout(NAME, pb.RECORDING_MODE_RECORD))
                live_s, asked = time.perf_counter() - started, len(model.seen[QUESTION].tokens)
                hashes, seconds = set[str](), []
                for _ in range(REPLAYS):
                    started = time.perf_counter()
                    replayed = await play(clients, rollout(NAME, pb.RECORDING_MODE_REPLAY_STRICT))
                    seconds.append(time.perf_counter() - started)
                    hashes.add(replayed.hash)
                again = len(model.seen[QUESTION].tokens) - asked
                await clients.close()
    equal = hashes == {recorded.hash}
    print(f"{REPLAYS} replays: {len(hashes)} hash{'es' * (len(hashes) > 1)}, the recording's: {equal}")
    print(f"calls of the model: live {asked}, replayed {again}")
    print(f"seconds: live {live_s:.2f}, replayed p50 {statistics.median(seconds):.2f}")
    if not equal:
        raise SystemExit("a replay has another hash")
