"""Every RPC of the real reward service over gRPC, NATS and in process: the same answers and the same errors."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.policy.config import Config as PolicyConfig
from fathom.services.policy.server import build as build_policy
from fathom.services.reward.config import Config
from fathom.services.reward.process.settings import ProcessSettings
from fathom.services.reward.server import build
from fathom.trainers.learners import tiny
from fathom.transport.bus import open_bus
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.refs import to_ref

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRANSPORTS = ("grpc", "nats", "inproc")
WORDS = [f"w{number}" for number in range(16)]
Connect = Callable[[str], Clients]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Connect, ObjectStore]]:
    """Reward with policy's rules as its judge and a tiny process model, on a real nats-server."""
    folder: Path = tmp_path_factory.mktemp("reward")
    tiny.save(tiny.build_model(WORDS, 16, 1, 0), tiny.build_tokenizer(WORDS), folder / "phi")
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(NatsServer(folder / "nats"))
        store = open_store(f"file://{folder / 'store'}")
        bus = await open_bus(nats.url, store)
        stack.push_async_callback(bus.close)
        await bus.declare()
        telemetry = Telemetry("reward", stream=io.StringIO())
        lone = Deps(Clients({}, telemetry), store, bus, telemetry)
        rules = PolicyConfig.model_validate({"models": {"rules": {"engine": "rules"}}, "default_model": "rules"})
        policy = await stack.enter_async_context(hosting(build_policy(rules, lone), lone, Runtime(grace_s=0.1)))
        await policy.warm
        clients = Clients({"policy": policy.url}, telemetry)
        stack.push_async_callback(clients.close)
        config = Config(process=ProcessSettings(model=folder / "phi", lr=0.01))
        deps = Deps(clients, store, bus, Telemetry("reward", stream=io.StringIO()))
        reward = await stack.enter_async_context(hosting(build(config, deps), deps, Runtime(grace_s=0.1)))
        await reward.warm

        def connect(transport: str) -> Clients:
            url = {"grpc": reward.url, "nats": "nats://", "inproc": "inproc://reward"}[transport]
            found = Clients({"reward": url}, telemetry, bus=bus, dispatchers={"reward": reward.dispatcher})
            stack.push_async_callback(found.close)
            return found

        yield connect, store


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_score_and_list(house: tuple[Connect, ObjectStore], transport: str) -> None:
    client = house[0](transport).reward
    items = [
        pb.ScoreItem(grader="math", answer="\\boxed{\\frac{1}{2}}", references=["0.5"]),
        pb.ScoreItem(
            grader="agent",
            answer="二〇二四",
            references=["2024"],
            steps=[pb.ToolStep(tool="search", ok=True)],
            expected_tools=["search"],
        ),
    ]
    scores = (await client.score(pb.ScoreRequest(items=items))).scores
    assert [score.value for score in scores] == pytest.approx([1.0, 1.3])
    assert dict(scores[1].components)["tool_choice"] == 1.0
    graders = (await client.list_graders(pb.ListGradersRequest())).graders
    assert {"em", "math", "code_run", "agent", "short_thinking"} <= {grader.name for grader in graders}
    with pytest.raises(InvalidField) as bad:
        await client.score(pb.ScoreRequest(items=[items[0], pb.ScoreItem(grader="nope")]))
    assert bad.value.field == "items[1].grader"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_judge_pairs(house: tuple[Connect, ObjectStore], transport: str) -> None:
    client = house[0](transport).reward
    pair = pb.Pair(question="What was the revenue in 2024?", left="Revenue in 2024 was 391 billion [1].", right="No.")
    answer = await client.judge_pairs(pb.JudgePairsRequest(pairs=[pair], style=pb.JUDGE_STYLE_RUBRIC, votes=2))
    assert (answer.judgements[0].grade, answer.judgements[0].votes) == (pb.GRADE_GOOD, 4)
    assert answer.judge_version.startswith("rules@0/judge.rubric.v1.en#")
    with pytest.raises(InvalidField) as bad:
        await client.judge_pairs(pb.JudgePairsRequest(pairs=[pair], votes=99))
    assert bad.value.field == "votes"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_score_process_and_update_model(house: tuple[Connect, ObjectStore], transport: str) -> None:
    connect, store = house
    client = connect(transport).reward
    items = [
        pb.ProcessItem(token_ids=[9, 10, token], mask=[0, 1, 1], outcome=right) for token, right in ((12, 1), (13, 0))
    ]
    batch = pb.ScoreProcessRequest(items=items, group_size=2)
    before = await client.score_process(batch)
    ref = to_ref(await store.put(f"batches/{transport}", batch.SerializeToString()))
    request = pb.UpdateModelRequest(request_id=f"step-{transport}", batch=ref)
    step = await client.update_model(request)
    assert step.model_version == before.model_version + 1
    assert step.metrics["reward_model/grad_norm"] > 0
    assert await client.update_model(request) == step
    after = await client.score_process(batch)
    assert after.model_version == step.model_version
    assert after.scores != before.scores
    with pytest.raises(InvalidField) as bad:
        await client.score_process(pb.ScoreProcessRequest(items=items, group_size=3))
    assert bad.value.field == "group_size"
