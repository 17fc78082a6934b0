"""The same question through other engines: the model's name is all that changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.domain.smollm2 import smollm2_folder
from fathom.services.local import LocalSettings, LocalStack
from fathom.services.policy.backends.rules.backend import RulesBackend
from fathom.services.policy.config import RulesModel
from tests.conftest import HOME
from tests.integration.policy.endpoint import endpoint
from tests.integration.stack.conftest import prepare
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
READY = policy.MODEL_STATE_READY
QUESTION = "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020"
# Prompt and tools take about 5,000 tokens, which a busy processor reads in minutes; the end matters, not its time.
SLOW = pb.Budget(max_rounds=2, max_ms=540_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(
    tmp_path_factory: pytest.TempPathFactory, tables_dir: Path, corpus_dir: Path
) -> AsyncIterator[Clients]:
    """A stack with the reference policy far away, behind an endpoint, and with the small model in its process."""
    home = prepare(tmp_path_factory.mktemp("engines") / "home", tables_dir, corpus_dir)
    (home / "models" / "smollm2").symlink_to(smollm2_folder(HOME / "models"))  # unpacked once on a machine
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(endpoint(RulesBackend("far", RulesModel())))
        models = {
            "rules": {"engine": "rules"},
            "far": {"engine": "openai", "model": "far", "base_url": far.url, "api_key_env": ""},
            "small": {"engine": "transformers", "max_tokens": 24},
        }
        endpoints = await stack.enter_async_context(
            LocalStack(LocalSettings(home=home, gateway_port=0, models=models)).running()
        )
        made = connect(endpoints.services)
        stack.push_async_callback(made.close)
        yield made


async def ask(
    clients: Clients, model: str, budget: pb.Budget | None = None
) -> tuple[pb.RunEvent, trajectory.Trajectory]:
    ident = f"run-{model}"
    request = pb.RunRequest(question=QUESTION, request_id=ident, model=model, budget=budget)
    events = [event async for event in run(clients, request)]
    found = (await clients.planner.get_run(pb.GetRunRequest(run_id=ident))).trajectory
    return events[-1], found


async def test_an_endpoint_answers_and_its_trajectory_is_marked(clients: Clients) -> None:
    event, found = await ask(clients, "far")
    assert event.finished.stop_reason == trajectory.STOP_REASON_FINISHED, event.finished.error
    assert event.finished.answer.model == "far"
    assert "-38.52%" in event.finished.answer.markdown
    assert not found.exact
    assert list(found.token_ids) == []


async def test_a_small_model_ends_its_run(clients: Clients) -> None:
    """It knows no tools, but its run has an end, exact ids, and its name on the answer."""

    async def is_loaded() -> bool:
        return (await clients.policy.get_model(policy.GetModelRequest(model="small"))).model.state == READY

    await eventually(is_loaded, within_s=300, every_s=0.5)
    event, found = await ask(clients, "small", SLOW)
    assert event.HasField("finished")
    assert found.exact
    assert len(found.token_ids) == len(found.mask) == len(found.log_probs) > 0
    assert 0 < sum(found.mask) < len(found.mask)
    assert all(step.completion.model == "small" for step in found.steps)
