"""A local stack whose processes disagree about the day."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import connect
from fathom.clients.runs import run
from fathom.services.local import LocalSettings, LocalStack
from fathom.services.planner.runs.repository import RunRepository
from fathom.transport.store import open_store
from tests.integration.stack.conftest import MODELS, prepare

# Python imports it before anything else: the clock of single services is a day off.
SITE = """
import sys, time
OFFSETS = {"fathom.services.planner": 86400.0, "fathom.services.policy": -86400.0, "fathom.services.memory": -86400.0}
for name, offset in OFFSETS.items():
    # By the command line, since all services are started with the same environment.
    if name in sys.orig_argv:
        true_time = time.time
        time.time = lambda: true_time() + offset
        break
"""


async def test_clocks_that_are_a_day_off_break_no_run(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    settings = LocalSettings(home=home, gateway_port=0, models=MODELS, processes=True)
    async with LocalStack(settings).running() as endpoints:
        clients = connect(endpoints.services)
        try:
            asked = pb.RunRequest(question="What was the highest close of Apple in 2019?")
            events = [event async for event in run(clients, asked)]
            conversation = next(event.started.conversation_id for event in events if event.HasField("started"))
            again = pb.RunRequest(question="And the lowest?", conversation_id=conversation)
            more = [event async for event in run(clients, again)]
        finally:
            await clients.close()
    header = await RunRepository(open_store(endpoints.store)).get_header(events[0].run_id)
    # Else the test would pass with clocks that nobody has moved.
    assert header.start_time > time.time() + 80_000, "the planner's clock was meant to be ahead"
    for ended in (events[-1].finished, more[-1].finished):
        assert ended.stop_reason == trajectory.STOP_REASON_FINISHED, ended.error
