"""The stack as the chart sets it: a sandbox that reaches no object store, and planners that carry tables to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import connect
from fathom.clients.runs import run
from fathom.services.local import LocalSettings, LocalStack
from tests.integration.stack.conftest import MODELS, prepare

SECTIONS = "sandbox: {objects: false}\nplanner: {frames_by_reference: false}\nreward: {frames_by_reference: false}\n"
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"


@pytest.mark.slow
async def test_a_computed_answer_needs_no_store_in_the_sandbox(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path
) -> None:
    config = tmp_path / "fathom.yaml"
    config.write_text(SECTIONS)
    home = prepare(tmp_path / "home", tables_dir, corpus_dir)
    settings = LocalSettings(home=home, gateway_port=0, models=MODELS, config=config)
    async with LocalStack(settings).running() as endpoints:
        clients = connect(endpoints.services)
        events = [event async for event in run(clients, pb.RunRequest(question=QUESTION))]
        await clients.close()
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    assert "-38.5" in finished.answer.markdown, "Apple's drawdown, computed in the sandbox from the sheet"
    assert [figure for item in finished.material for figure in item.code.figures]
    assert not list((home / "store").glob("displays/**/*~")), "the sandbox has written nothing"
