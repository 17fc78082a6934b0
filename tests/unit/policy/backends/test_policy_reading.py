"""The engine ``reading``: a language model's program goes to the data tool, all else is the reference policy's."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, ToolSpec, Usage
from fathom.domain.programs.asking import SYSTEM
from fathom.services.policy.backends.reading.backend import ReadingBackend
from fathom.services.policy.config import Config, ReadingModel
from fathom.services.policy.model import Item, Request

QUESTION = "What did gold return in 2011?"
PROGRAM = 'ret(within(series("gold"), "2011"))'
DATA = ToolSpec("data", "data", '{"type": "object", "properties": {"question": {}, "program": {}}}')
PYTHON = ToolSpec("python", "python", '{"type": "object"}')
FINISH = ToolSpec("finish", "finish", '{"type": "object", "properties": {"reading": {"type": "object"}}}')
HEAD: dict[str, Any] = {
    "status": "ok", "material": 1, "words": [], "missing": [], "sheets": [],
    "program": {
        "kind": "calculation", "steps": ["f.ret(s1)"], "series": [
            {"name": "s1", "entity": "GOLD", "indicator": "price", "words": "gold"}
        ], "missing": [], "confidence": 0.01, "link_confidence": 0.99, "words": ["gold", "2011"],
    },
}  # fmt: skip


class ScriptedNetwork:
    """A language model that writes one text, each token with the same probability."""

    version = 7

    def __init__(self, text: str, chance: float = 0.99, finish: FinishReason = FinishReason.STOP) -> None:
        self._text, self._chance, self._finish = text, chance, finish
        self.asked: list[Request] = []

    async def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        self.asked.append(request)
        chances = (math.log(self._chance),) * 3
        usage = Usage(1, 3, 0, 1)
        yield Completion((1,), (1, 2, 3), chances, self._text, (), self._finish, 7, 7, usage, True, "small")


def make_backend(network: ScriptedNetwork, **settings: Any) -> ReadingBackend:
    backend = ReadingBackend("reader", ReadingModel(engine="reading", **settings), Path("nowhere"))
    backend._network = network  # type: ignore[assignment]
    return backend


async def ask(
    backend: ReadingBackend, messages: Sequence[Message], tools: Sequence[ToolSpec] = (DATA, PYTHON, FINISH)
) -> Completion:
    request = Request("r", "reader", tuple(messages), tools=tuple(tools))
    done = [item async for item in backend.generate(request)][-1]
    assert isinstance(done, Completion)
    return done


async def ask_twice(backend: ReadingBackend) -> tuple[Completion, Completion]:
    """Ask the question, then again behind the data tool's result."""
    first = await ask(backend, [Message(Role.USER, QUESTION)])
    result = Message(Role.TOOL, json.dumps(HEAD), tool_call_id=first.tool_calls[0].id)
    said = Message(Role.ASSISTANT, first.text, first.tool_calls)
    return first, await ask(backend, [Message(Role.USER, QUESTION), said, result])


async def test_the_program_goes_to_the_data_tool_and_its_series_are_fetched() -> None:
    network = ScriptedNetwork(PROGRAM)
    first, second = await ask_twice(make_backend(network))
    assert first.tool_calls[0].name == "data"
    arguments = json.loads(first.tool_calls[0].arguments_json)
    assert (arguments["question"], arguments["program"]) == (QUESTION, PROGRAM)
    fetched = json.loads(second.tool_calls[0].arguments_json)
    assert (fetched["entities"], fetched["indicators"]) == (["GOLD"], ["price"])
    assert len(network.asked) == 1, "it is asked once for all rounds of a question"
    asked = network.asked[0]
    assert [one.content for one in asked.messages] == [SYSTEM, QUESTION]
    assert asked.grammar
    assert asked.sampling.temperature == 0


async def test_no_ids_are_given_out_as_sampled_and_the_version_is_the_model_s() -> None:
    first, _ = await ask_twice(make_backend(ScriptedNetwork(PROGRAM)))
    assert (first.exact, first.prompt_token_ids, first.sampled_token_ids, first.log_probs) == (False, (), (), ())
    assert (first.version_min, first.version_max) == (7, 7)


@pytest.mark.parametrize(
    "network",
    [
        ScriptedNetwork(PROGRAM, 0.5),
        ScriptedNetwork(PROGRAM, finish=FinishReason.LENGTH),
        ScriptedNetwork("minus(_1, _2)"),
        ScriptedNetwork('ret(series("silver"))'),
        ScriptedNetwork("gold, I think"),
    ],
)
async def test_what_is_unsure_or_no_program_is_not_computed(network: ScriptedNetwork) -> None:
    _, second = await ask_twice(make_backend(network))
    assert second.tool_calls[0].name == "finish", "the tool's own program does not take its place"


async def test_the_limits_are_settings() -> None:
    _, second = await ask_twice(make_backend(ScriptedNetwork(PROGRAM, 0.5), confidence=0.4))
    assert second.tool_calls[0].name == "data"


@pytest.mark.parametrize(
    ("question", "tools"),
    [("黄金2011年涨了多少？", (DATA, FINISH)), ("Thank you!", (DATA, FINISH)), (QUESTION, (PYTHON, FINISH))],
)
async def test_the_model_reads_english_questions_alone_and_where_a_program_is_taken(
    question: str, tools: Sequence[ToolSpec]
) -> None:
    network = ScriptedNetwork(PROGRAM)
    await ask(make_backend(network), [Message(Role.USER, question)], tools)
    assert network.asked == []


def test_settings_name_the_engine_and_its_network() -> None:
    models = {"rules": {"engine": "rules"}, "reader": {"engine": "reading", "network": {"adapter": "somewhere"}}}
    found = Config.model_validate({"models": models}).models["reader"]
    assert isinstance(found, ReadingModel)
    assert found.network.adapter == Path("somewhere")
