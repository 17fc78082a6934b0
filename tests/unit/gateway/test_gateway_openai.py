"""The gateway as OpenAI's own client sees it: chat completions of the agent and of a model, models, errors."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.call import Call
from tests.e2e.replay import ReplayHouse, serve_script
from tests.e2e.script import SHEET_ID, Script
from tests.support.waiting import eventually
from tests.unit.gateway.conftest import Door

ASKED: Any = [{"role": "user", "content": "Compare AAA and BBB"}]


def client_of(house: ReplayHouse, path: str = "/v1", key: str = "none") -> openai.AsyncOpenAI:
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(house.service.app))
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1{path}", api_key=key, http_client=http, max_retries=0)


@pytest_asyncio.fixture
async def client(door: Door) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client_of(door[1]) as found:
        yield found


async def test_models_are_listed_for_both_kinds_of_reader(client: openai.AsyncOpenAI, door: Door) -> None:
    listed = await client.models.list()
    assert [model.id for model in listed.data] == ["fathom", "rules", "smollm2-135m"]
    assert (await door[0].get("/v1/models")).json()["models"][0]["name"] == "rules"
    assert (await client.models.retrieve("fathom")).owned_by == "fathom"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nobody")
    async with client_of(door[1], "/policy/v1") as models:
        assert [model.id for model in (await models.models.list()).data] == ["rules", "smollm2-135m"]


async def test_the_agent_answers_with_tables_and_annotated_citations(client: openai.AsyncOpenAI, door: Door) -> None:
    found = await client.chat.completions.create(model="fathom", messages=ASKED)
    assert found.id in door[1].planner.runs
    [choice] = found.choices
    assert choice.finish_reason == "stop"
    text = choice.message.content or ""
    assert "| date | AAA.close_adj | BBB.close_adj |\n| --- | --- | --- |\n| 2015-01-02 |" in text
    assert f"http://127.0.0.1/v1/runs/{found.id}/figures/fig_1" in text
    assert "{{" not in text
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (5120, 640, 5760)
    cited = [note.url_citation for note in choice.message.annotations or ()]
    assert [text[place.start_index : place.end_index] for place in cited] == ["[2]", "[3]", "[1]"]
    assert (cited[0].title, cited[0].url) == (
        "Adjusted close of AAA and BBB",
        f"http://127.0.0.1/v1/tables/{SHEET_ID}",
    )
    assert cited[2].title == "Drawdown"


async def test_an_answer_says_first_how_the_question_was_read(client: openai.AsyncOpenAI, door: Door) -> None:
    door[1].planner.script.reading = trajectory.Reading(line="Read as: Apple (AAPL) · close · 2018")
    reply = (await client.chat.completions.create(model="fathom", messages=ASKED)).choices[0].message
    assert reply.content is not None
    assert reply.content.startswith("Read as: Apple (AAPL) · close · 2018\n\n")
    assert reply.annotations
    for place in (note.url_citation for note in reply.annotations):
        assert re.fullmatch(r"\[[\d, ]+\]", reply.content[place.start_index : place.end_index])


async def test_the_conversation_reaches_the_planner(client: openai.AsyncOpenAI, door: Door) -> None:
    await client.chat.completions.create(
        model="rules",
        messages=[
            {"role": "system", "content": "Answer in French."},
            {"role": "user", "content": "Compare AAA and BBB"},
            {"role": "assistant", "content": "AAA rose."},
            {"role": "user", "content": [{"type": "text", "text": "And CCC?"}]},
        ],
        reasoning_effort="low",
        max_completion_tokens=500,
        temperature=0,
    )
    [asked] = door[1].planner.asked
    assert (asked.question, asked.model, asked.instructions) == ("And CCC?", "rules", "Answer in French.")
    assert [(turn.role, turn.content) for turn in asked.history] == [
        (policy.ROLE_USER, "Compare AAA and BBB"),
        (policy.ROLE_ASSISTANT, "AAA rose."),
    ]
    assert (asked.effort, asked.budget.max_tokens) == (planner.EFFORT_QUICK, 500)
    assert asked.HasField("sampling")


async def test_a_stream_says_what_is_done_and_then_the_whole_checked_answer(
    client: openai.AsyncOpenAI, door: Door
) -> None:
    door[1].planner.script.drafts = ["A draft that a check takes back."]
    stream = await client.chat.completions.create(
        model="fathom", messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert len({chunk.id for chunk in chunks}) == 1
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert "fetch: read the definition" in thought
    text = "".join(delta.content or "" for delta in deltas)
    whole = await client.chat.completions.create(model="fathom", messages=ASKED)
    assert text.replace(chunks[0].id, whole.id) == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 5760


async def test_a_repeated_key_joins_the_run(client: openai.AsyncOpenAI, door: Door) -> None:
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):
        found = await client.chat.completions.create(model="fathom", messages=ASKED, extra_headers=headers)
        assert found.id == "once"
    assert list(door[1].planner.runs) == ["once"]


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"messages": [{"role": "user", "content": ""}]}, "question"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}, *ASKED]}, "messages[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
        ),
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"temperature": 9}, "temperature"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(client: openai.AsyncOpenAI, changed: dict, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(**{"model": "fathom", "messages": ASKED, **changed})
    assert (refused.value.param, refused.value.type) == (param, "invalid_request_error")
    assert refused.value.code == "invalid_field"


@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_unknown_model_is_not_found_before_a_run_is_started(
    client: openai.AsyncOpenAI, door: Door, is_stream: bool
) -> None:
    door[1].planner.models = {"rules"}
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-none'") as refused:
        await client.chat.completions.create(model="gpt-none", messages=ASKED, stream=is_stream)
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    own = await door[0].post("/v1/runs", json={"question": "why?", "model": "gpt-none"})
    assert (own.status_code, own.json()["field"], own.json()["nearest"]) == (404, "model", ["rules"])
    assert door[1].planner.runs == {}


async def test_openais_defaults_are_accepted_and_other_forms_refused(client: openai.AsyncOpenAI) -> None:
    defaults: Any = {
        "response_format": {"type": "text"}, "logprobs": False, "modalities": ["text"], "tool_choice": "none",
        "n": 1, "store": False, "service_tier": "auto", "parallel_tool_calls": True, "stream": False,
    }  # fmt: skip
    found = await client.chat.completions.create(model="fathom", messages=ASKED, **defaults)
    assert found.choices[0].message.content
    form: Any = {"type": "json_object"}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="fathom", messages=ASKED, response_format=form)
    assert refused.value.param == "response_format.type"


async def test_every_address_that_openais_client_knows_answers_in_its_form(door: Door) -> None:
    """The client's own source says which addresses it calls."""
    called = re.compile(r'self\._(?:post|get|put|delete|get_api_list)\(\s*(?:path_template\()?f?"/([a-z_]+)')
    resources = Path(openai.__file__).parent / "resources"
    parts = {found for file in resources.rglob("*.py") for found in called.findall(file.read_text(encoding="utf-8"))}
    assert {"responses", "embeddings", "completions", "chat"} <= parts
    own = {"conversations", "models"}
    others = dict[str, Any]()
    for part in sorted(parts - own):
        answer = await door[0].post(f"/v1/{part}", json={})
        assert answer.status_code in (404, 405), part
        if answer.json().get("error", {}).keys() != {"message", "type", "param", "code"}:
            others[part] = answer.json()
    assert others == {}
    # Our own API keeps its own form.
    assert (await door[0].get("/v1/nothing")).json()["reason"] == "NOT_FOUND"


async def test_errors_of_every_layer_have_openais_form(client: openai.AsyncOpenAI, door: Door, open_with) -> None:
    door[1].planner.gone = "away"
    with pytest.raises(openai.InternalServerError, match="away") as failed:
        await client.chat.completions.create(model="fathom", messages=ASKED)
    assert (failed.value.status_code, failed.value.code) == (503, "dependency_failed")
    with pytest.raises(openai.InternalServerError) as failed:
        await client.chat.completions.create(model="fathom", messages=ASKED, stream=True)
    async with open_with(token="s3cret") as (_, house):
        async with client_of(house, key="wrong") as stranger:
            with pytest.raises(openai.AuthenticationError) as unknown:
                await stranger.chat.completions.create(model="fathom", messages=ASKED)
            assert unknown.value.type == "authentication_error"
        async with client_of(house, key="s3cret") as known:
            assert (await known.chat.completions.create(model="fathom", messages=ASKED)).id


async def test_a_run_without_an_answer_is_an_error(client: openai.AsyncOpenAI, door: Door) -> None:
    stopped = planner.RunFinished(stop_reason=trajectory.STOP_REASON_STOPPED)
    door[1].planner.script.finish_run = lambda request: stopped  # type: ignore[method-assign]
    with pytest.raises(openai.ConflictError, match="ended without an answer"):
        await client.chat.completions.create(model="fathom", messages=ASKED)
    stream = await client.chat.completions.create(model="fathom", messages=ASKED, stream=True)
    with pytest.raises(openai.APIError, match="ended without an answer"):
        [chunk async for chunk in stream]


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_goes_away_ends_its_run(is_stream: bool) -> None:
    async with serve_script(Script(days=30)) as house:
        house.planner.hold(4)
        async with openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key="none", max_retries=0) as client:
            headers = {"Idempotency-Key": "left"}

            async def read() -> None:
                found = await client.chat.completions.create(
                    model="fathom", messages=ASKED, stream=is_stream, extra_headers=headers
                )
                assert [chunk async for chunk in found]

            reading = asyncio.create_task(read())
            await eventually(lambda: "left" in house.planner.runs and len(house.planner.runs["left"].events) == 3)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await house.planner.runs["left"].stopped.wait()


class Parrot:
    """A model that says what it was asked, and calls a tool when it is offered one."""

    def __init__(self) -> None:
        self.asked: list[policy.GenerateRequest] = []

    async def Generate(self, request: policy.GenerateRequest, call: Call) -> AsyncIterator[policy.GenerateResponse]:
        self.asked.append(request)
        text = request.messages[-1].content
        for piece in (text[:3], text[3:]):
            yield policy.GenerateResponse(delta=policy.GenerateDelta(text=piece))
        found = policy.Completion(text=text, model=request.model, finish_reason=policy.FINISH_REASON_STOP)
        found.prompt_token_ids.extend([1, 2])
        found.sampled_token_ids.extend([3, 4, 5])
        found.usage.CopyFrom(common.Usage(prompt_tokens=2, completion_tokens=3))
        if request.tools:
            found.text, found.finish_reason = "", policy.FINISH_REASON_TOOL_CALLS
            found.tool_calls.add(id="call_1", name=request.tools[0].name, arguments_json='{"x": 1}')
        yield policy.GenerateResponse(completion=found)


@pytest_asyncio.fixture
async def parrot(door: Door, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[openai.AsyncOpenAI, Parrot]]:
    made = Parrot()
    servicer = door[1].dispatchers["policy"].service.servicer
    monkeypatch.setattr(servicer, "Generate", made.Generate, raising=False)
    async with client_of(door[1], "/policy/v1") as found:
        yield found, made


async def test_a_model_is_sampled_without_the_agent(parrot: tuple[openai.AsyncOpenAI, Parrot]) -> None:
    client, model = parrot
    messages: Any = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    found = await client.chat.completions.create(
        model="rules",
        messages=messages,
        stop=["x"],
        seed=7,
        extra_body={"return_token_ids": True, "top_k": 5},  # type: ignore[arg-type]
    )
    assert (found.choices[0].message.content, found.choices[0].finish_reason) == ("hello", "stop")
    assert found.choices[0].model_extra == {"token_ids": [3, 4, 5]}
    assert found.model_extra["prompt_token_ids"] == [1, 2]
    [asked] = model.asked
    assert (list(asked.sampling.stop), asked.sampling.seed, asked.sampling.top_k) == (["x"], 7, 5)
    chunks = [c async for c in await client.chat.completions.create(model="rules", messages=messages, stream=True)]  # type: ignore[arg-type]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello"


async def test_a_model_calls_the_callers_tools(parrot: tuple[openai.AsyncOpenAI, Parrot]) -> None:
    client, model = parrot
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    messages: list = [{"role": "user", "content": "1 + 1"}]
    found = await client.chat.completions.create(model="rules", messages=messages, tools=tools)  # type: ignore[arg-type]
    [call] = found.choices[0].message.tool_calls or ()
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"x": 1})
    assert found.choices[0].finish_reason == "tool_calls"
    messages += [found.choices[0].message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "2"}]
    await client.chat.completions.create(model="rules", messages=messages, tools=tools)  # type: ignore[arg-type]
    sent = model.asked[-1].messages
    assert (sent[1].tool_calls[0].id, sent[2].tool_call_id) == ("call_1", "call_1")
    stream = await client.chat.completions.create(model="rules", messages=messages, tools=tools, stream=True)  # type: ignore[arg-type]
    chunks = [chunk async for chunk in stream]
    assert all(not chunk.choices[0].delta.content for chunk in chunks), "the text of a call is not an answer"
    assert chunks[-1].choices[0].delta.tool_calls[0].function.name == "add"
