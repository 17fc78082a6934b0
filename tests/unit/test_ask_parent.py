"""``fathom ask --parent``: the turn that a question follows reaches the planner as it was named."""

from __future__ import annotations

import asyncio
import io

import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.clients import Clients
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.transport.bus import open_bus
from fathom.transport.rpc.service import Service
from fathom.transport.store.memory import MemoryStore
from tests.e2e.doubles.planner import ReplayPlanner
from tests.e2e.script import Script


@pytest.mark.parametrize(("words", "parent"), [([], None), (["--parent", "0"], 0), (["--parent", "3"], 3)])
async def test_the_turn_that_a_question_follows_is_named(words: list[str], parent: int | None) -> None:
    telemetry, store = Telemetry("planner", stream=io.StringIO()), MemoryStore()
    script = Script(days=5)
    planner = ReplayPlanner(script)
    deps = Deps(Clients({}, telemetry), store, await open_bus("memory://", store), telemetry)
    async with hosting(Service("planner", planner), deps, Runtime()) as hosted:
        command = ["ask", "Two, otherwise?", "--planner", hosted.url, "--conversation", "conv_1", *words]
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
    await planner.close()
    assert done.exit_code == 0, done.output
    [asked] = planner.asked
    assert (asked.parent_turn if asked.HasField("parent_turn") else None) == parent
    assert asked.conversation_id == "conv_1"


def test_a_turn_before_the_first_is_refused_by_name() -> None:
    done = CliRunner().invoke(app, ["ask", "Two?", "--conversation", "conv_1", "--parent", "-1"])
    assert done.exit_code == 2
    assert "--parent" in done.output
