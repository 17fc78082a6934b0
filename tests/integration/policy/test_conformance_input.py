"""Test what every engine must do alike with schemas, and with what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import FinishReason, Message, Role, Sampling, ToolSpec
from tests.integration.policy.conftest import Ask, Contender

pytestmark = pytest.mark.asyncio(loop_scope="session")


SCHEMA = {
    "type": "object",
    "properties": {
        # A word outside of ASCII, whose bytes lie in several tokens, must still be reachable by the grammar.
        "rating": {"enum": ["good", "bad", "差"]},
        "pages": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2},
    },
    "required": ["rating", "pages", "tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0.0, 2.0])
async def test_a_schema_is_followed(contender: Contender, ask: Ask, temperature: float) -> None:
    if not contender.schema:
        pytest.skip("this engine follows no schema: its callers read tolerantly")
    sampling = Sampling(temperature=temperature, max_tokens=200, seed=3)
    completion = await ask("short", sampling=sampling, response_schema_json=json.dumps(SCHEMA))
    assert completion.finish_reason is FinishReason.STOP
    jsonschema.validate(json.loads(completion.text), SCHEMA)
    if contender.exact:
        ids = [*completion.prompt_token_ids, *completion.sampled_token_ids]
        [scores], _ = await contender.engine.score("", [ids], temperature)
        assert scores[-len(completion.log_probs) :] == pytest.approx(completion.log_probs, abs=2e-3)


async def test_a_schema_that_is_none_is_refused(contender: Contender, ask: Ask) -> None:
    if not contender.schema:
        pytest.skip("this engine follows no schema: its callers read tolerantly")
    with pytest.raises(InvalidField) as raised:
        await ask("short", response_schema_json='{"type": "nonsense"}')
    assert raised.value.field in ("response_schema_json", "messages")  # an endpoint says it in its own words
    assert (await ask("short")).text


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"sampling": Sampling(temperature=-0.1)}, "sampling.temperature"),
        ({"sampling": Sampling(temperature=float("nan"))}, "sampling.temperature"),
        ({"sampling": Sampling(temperature=float("inf"))}, "sampling.temperature"),
        ({"sampling": Sampling(top_p=0.0)}, "sampling.top_p"),
        ({"sampling": Sampling(top_p=1.5)}, "sampling.top_p"),
        ({"sampling": Sampling(top_k=-1)}, "sampling.top_k"),
        ({"sampling": Sampling(max_tokens=-1)}, "sampling.max_tokens"),
        ({"sampling": Sampling(stop=("",))}, "sampling.stop"),
        ({"sampling": Sampling(seed=-(2**70))}, "sampling.seed"),
        ({"messages": ()}, "messages"),
        ({"messages": (Message(Role.USER, "x"), Message(Role.ASSISTANT, "y"))}, "messages"),
        ({"tools": (ToolSpec("t", "d", "no json"),)}, "tools"),
        ({"tools": (ToolSpec("t", "d", "[]"),)}, "tools"),
        ({"response_schema_json": "no json"}, "response_schema_json"),
        ({"response_schema_json": "[1]"}, "response_schema_json"),
    ],
)
async def test_bad_input_names_its_field(contender: Contender, ask: Ask, fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidField) as raised:
        await ask("short", **fields)
    assert raised.value.field == name


async def test_a_heat_that_an_engine_does_not_know_is_named(contender: Contender, ask: Ask) -> None:
    sampling = Sampling(temperature=contender.hottest, max_tokens=4)
    assert (await ask("short", sampling=sampling)).usage.completion_tokens > 0
    with pytest.raises(InvalidField) as raised:
        await ask("short", sampling=replace(sampling, temperature=contender.hottest + 1))
    assert raised.value.field == "sampling.temperature"


async def test_a_conversation_over_the_window_is_refused(contender: Contender, ask: Ask) -> None:
    # Longer than the window of any engine here.
    long = Message(Role.USER, "drawdown " * 20_000)
    with pytest.raises(InvalidField) as raised:
        await ask("short", messages=(long,))
    assert raised.value.field == "messages"
    assert "window" in raised.value.message
    await contender.idle()
