"""Each known family takes the first request, calls tools in parallel, and gets back what it wants back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.domain.chat.messages import Message, Role, Sampling, ToolCall
from tests.integration.policy.endpoints.asking import ANSWER, CALLS, QUESTION, continue_with, model
from tests.support.endpoint import FAMILIES, Reply
from tests.support.endpoint.families import Family, refuse_field
from tests.support.endpoint.replies import Wire

# Families that the table knows by the name of the model or the address: not one request of theirs may be refused.
KNOWN = ("gpt-5", "gpt-4", "deepseek", "kimi", "gemini", "claude", "mistral", "minimax", "glm", "qwen", "vllm")


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_research_of_two_rounds_goes_through(name: str) -> None:
    async with model(name, CALLS, ANSWER) as far:
        first, second = await far.research()
    calls = first.completion.tool_calls
    assert [(call.name, call.arguments_json) for call in calls] == [
        ("data", '{"query": "Apple"}'),
        ("data", '{"query": "gold"}'),
    ]
    assert len({call.id for call in calls}) == 2
    assert second.completion.text == "Apple rose."
    if name in KNOWN:
        assert [refusal.text for refusal in far.far.refusals] == []


@pytest.mark.parametrize("name", FAMILIES)
async def test_thoughts_stream_apart_and_are_never_in_the_text(name: str) -> None:
    async with model(name, CALLS, ANSWER) as far:
        _, answered = await far.research()
    hidden = FAMILIES[name].wire.thoughts == "hidden"
    assert answered.completion.text == "Apple rose."
    assert answered.completion.reasoning.strip() == ("" if hidden else "Now I know.")
    if not hidden and FAMILIES[name].wire.thoughts != "unopened":
        assert "".join(answered.thoughts).strip() == "Now I know."
        assert "".join(answered.texts) == "Apple rose."


@pytest.mark.parametrize("name", ["deepseek", "kimi", "gemini"])
async def test_calls_of_another_model_or_of_an_old_record_are_accepted(name: str) -> None:
    call = ToolCall("call_0_ab", "data", '{"query": "Apple"}')
    old = (
        *QUESTION,
        Message(
            Role.ASSISTANT, "", (call,), opaque_json='{"origin":"other@far","message":{"reasoning_content":"SECRET"}}'
        ),
        Message(Role.TOOL, "42", tool_call_id=call.id),
    )
    async with model(name, ANSWER) as far:
        await far.ask(old)
    assert far.far.refusals == []
    assert "SECRET" not in str(far.far.requests[0].body["messages"][2])


async def test_a_thought_goes_to_the_model_that_had_it_and_to_no_other() -> None:
    async with model("deepseek", CALLS, ANSWER) as one, model("qwen", CALLS, ANSWER) as other:
        first = await one.ask()
        history = (*QUESTION, *continue_with(first.completion))
        await one.ask(history)
        await other.ask(history)
    assert one.far.requests[1].body["messages"][2]["reasoning_content"] == "Prices first."
    assert "reasoning_content" not in other.far.requests[0].body["messages"][2]


async def test_signatures_come_back_with_their_calls() -> None:
    async with model("gemini", CALLS, ANSWER) as far:
        await far.research()
    first, second = far.far.requests[1].body["messages"][2]["tool_calls"]
    assert first["extra_content"]["google"]["thought_signature"].startswith("c2ln")
    assert "extra_content" not in second


async def test_reasoning_details_come_back_whole() -> None:
    long = Reply(reasoning="First I look at the prices of Apple, then at gold.", calls=CALLS.calls)
    async with model("openrouter", long, ANSWER) as far:
        await far.research()
    details = far.far.requests[1].body["messages"][2]["reasoning_details"]
    assert details == [{"type": "reasoning.text", "id": "reasoning-1", "index": 0, "text": long.reasoning}]


async def test_parts_of_content_come_back_as_parts() -> None:
    async with model("mistral", replace(CALLS, text="I look."), ANSWER) as far:
        first, _ = await far.research()
    assert first.completion.text == "I look."
    assert far.far.requests[1].body["messages"][2]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Prices first."}]},
        {"type": "text", "text": "I look."},
    ]


async def test_tags_are_kept_for_the_family_that_wants_them_and_for_no_other() -> None:
    tagged = Family("unheard-of", (), Wire(thoughts="think"))
    async with model("minimax", CALLS, ANSWER) as wanted, model(tagged, CALLS, ANSWER) as other:
        await wanted.research()
        await other.research()
    assert wanted.far.requests[1].body["messages"][2]["content"].startswith("<think>\nPrices first.")
    assert other.far.requests[1].body["messages"][2]["content"] == ""


async def test_what_nobody_asked_for_is_not_sent() -> None:
    async with model("bare", ANSWER) as far:
        await far.ask()
        await far.ask(sampling=Sampling(temperature=0.5, top_p=0.9, top_k=3, max_tokens=9, seed=7))
    plain, asked = (request.body for request in far.far.requests)
    assert not {"temperature", "top_p", "top_k", "seed"} & set(plain)
    assert [asked[name] for name in ("temperature", "top_p", "top_k", "max_tokens", "seed")] == [0.5, 0.9, 3, 9, 7]


async def test_settings_omit_rename_add_and_send_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_TENANT", "t-1")
    settings = {
        "omit": ["stream_options"],
        "rename": {"max_tokens": "limit"},
        "add": {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": True}, "tool_choice": "auto"},
        "headers": {"X-Title": "Fathom"},
        "header_envs": {"X-Tenant": "FAR_TENANT"},
        "max_tokens": 77,
        "greedy": True,
    }
    async with model("bare", ANSWER, **settings) as far:
        await far.ask()
        await far.ask(tools=())
    sent, without_tools = far.far.requests
    assert sent.body["limit"] == 77
    assert sent.body["temperature"] == 0
    assert sent.body["reasoning_effort"] == "high"
    assert sent.body["chat_template_kwargs"] == {"enable_thinking": True}
    assert not {"max_tokens", "stream_options"} & set(sent.body)
    assert (sent.body["tool_choice"], sent.headers["X-Title"], sent.headers["X-Tenant"]) == ("auto", "Fathom", "t-1")
    assert "tool_choice" not in without_tools.body


@pytest.mark.parametrize(("name", "kind"), [("gpt-5", "json_schema"), ("deepseek", "json_object"), ("claude", "")])
async def test_output_by_a_schema_is_asked_for_as_the_family_knows_it(name: str, kind: str) -> None:
    async with model(name, Reply(text="{}")) as far:
        await far.ask(tools=(), response_schema_json='{"type": "object", "title": "Fund"}')
    body = far.far.requests[0].body
    assert far.far.refusals == []
    assert body.get("response_format", {}).get("type", "") == kind
    assert ('"title": "Fund"' in body["messages"][-1]["content"]) == (kind != "json_schema")


@pytest.mark.parametrize(
    ("name", "is_sent"), [("gpt-5", True), ("deepseek", True), ("gpt-4", False), ("mistral", False)]
)
async def test_how_much_to_think_is_said_to_families_that_know_it(name: str, is_sent: bool) -> None:
    async with model(name, ANSWER) as far:
        await far.ask(sampling=Sampling(reasoning_effort="low"))
    assert far.far.refusals == []
    assert ("reasoning_effort" in far.far.requests[0].body) == is_sent


async def test_a_family_can_be_named_where_the_model_has_another_name() -> None:
    aliased = Family("our-model", (refuse_field("max_tokens", "max_completion_tokens"),))
    async with model(aliased, ANSWER, family="openai-reasoning") as far:
        await far.ask()
    assert far.far.refusals == []
