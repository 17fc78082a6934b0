"""The registry: whatever a model or a tool does wrong comes back as a result that says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from prometheus_client import CollectorRegistry

from fathom.core.errors import CorruptData, DeadlineExceeded, FathomError, Internal, Overloaded
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.episode.agent import make_ids_unique
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.episode import MaterialKind, Step, ToolResult, ToolStatus
from fathom.services.planner.tools.gates import Gates
from fathom.services.planner.tools.registry import CallLimits, PlaneFailure, Registry
from fathom.services.planner.tools.think import GUIDANCE, KINDS, Finish, Think
from fathom.services.planner.tools.tool import NewMaterial, OutcomeUnknown, Reply, SourceFailed, Tool, make_schema
from tests.support.clock import simulate_time
from tests.support.waiting import settle

DEEP = "[" * 5000 + "]" * 5000


def test_a_schema_is_checked_once_for_all_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def count(schema: Mapping[str, Any]) -> None:
        checked.append(schema["title"])

    monkeypatch.setattr(Draft202012Validator, "check_schema", staticmethod(count))
    first = Strange(parameters={"type": "object", "title": "of this test alone"})
    other = Strange(parameters={"type": "object", "title": "another one"})
    for _ in range(3):
        assert Registry([first]).specs
    assert Registry([other]).specs
    assert checked == ["of this test alone", "another one"]


def test_a_schema_that_is_none_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(SchemaError):
            _ = Registry([Strange(parameters={"type": "no type"})]).specs


async def test_a_tool_that_is_switched_off_is_not_offered_and_refused_by_name() -> None:
    tool, other = Strange(), Strange(name="other")
    registry = Registry([tool, other], off={"strange"})
    assert [spec.name for spec in registry.specs] == ["other"]
    result = await registry.call("c1", ToolCall("c1", "strange", "{}"))
    assert result.status is ToolStatus.INVALID
    assert "strange" in result.content
    assert "is switched off for this question" in result.content
    assert tool.seen == []


@dataclass
class Strange:
    """A tool that does what its argument says."""

    name: str = "strange"
    description: str = "Does anything."
    reads: bool = False
    seen: list[Mapping[str, Any]] = field(default_factory=list)
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: make_schema(
            ["do"],
            do={"type": "string"},
            count={"type": "integer", "minimum": 1},
            names={"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        )
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Any:
        self.seen.append(arguments)
        match arguments["do"]:
            case "raise":
                raise KeyError("nobody expected this")
            case "hang":
                await asyncio.Event().wait()
            case "cling":
                for _ in range(2):  # not for ever: the test's own loop must end
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        continue
            case "flood":
                return Reply(ToolStatus.OK, {}, "x" * 10_000_000)
            case "flood head":
                return Reply(ToolStatus.OK, {"text": "x" * 1_000_000})
            case "flood findings":
                found = NewMaterial(MaterialKind.MISSING, {"subject": "x", "reason": "NO_MATCH"})
                return Reply(ToolStatus.OK, {}, "", (found,) * 10_000)
            case "lie":
                return {"this": "is no reply"}
            case "bytes":
                return Reply(ToolStatus.OK, {"raw": b"\xff"})
        return Reply(ToolStatus.OK, {"did": arguments["do"]})


def registry(tool: Strange | None = None, reported: list[str] | None = None) -> Registry:
    tools: list[Tool] = [tool or Strange(), Think(), Finish()]
    bounds = CallLimits(5.0, {"strange": 0.1})
    return Registry(tools, 0, bounds, lambda name, error: (reported if reported is not None else []).append(name))


def head(content: str) -> dict[str, Any]:
    found = json.loads(content.splitlines()[0])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "are no JSON"),
        ("do it", "are no JSON"),
        ("[1]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("3", "must be a JSON object"),
        ("{}", "'do' is a required property"),
        ("", "'do' is a required property"),
        ('{"do": 3}', "strange.do: 3 is not of type 'string'"),
        ('{"do": null}', "strange.do"),
        ('{"do": "x", "count": "2"}', "strange.count"),
        ('{"do": "x", "count": NaN}', "are no JSON"),
        ('{"do": "x", "count": 0}', "less than the minimum"),
        ('{"do": "x", "names": [{"id": "a"}]}', "strange.names.0.id"),
        ('{"do": "x", "names": {"id": 1}}', "strange.names"),
        ('{"do": "x", "more": 1}', "'more' was unexpected"),
        ('{"do": ["x"]}', "strange.do"),
        ('{"arguments": {"do": 3}}', "strange.do"),
        ('{"do": "' + "x" * 300_000 + '"}', "at most 200,000"),
        (DEEP, "are no JSON"),
    ],
)
async def test_every_malformed_call_is_a_typed_result_that_says_how_to_mend_it(arguments: str, said: str) -> None:
    tool = Strange()
    result = await registry(tool).call("id", ToolCall("c", "strange", arguments))
    assert result.status is ToolStatus.INVALID
    assert said in head(result.content)["error"]
    assert len(result.content) < 2_000
    assert (tool.seen, result.material) == ([], ())


async def test_an_unknown_tool_is_named_with_those_that_there_are() -> None:
    result = await registry().call("id", ToolCall("c", "<|im_start|>" + "nope" * 1000, "{}"))
    assert result.status is ToolStatus.INVALID
    assert "nearest: finish, strange, think" in result.content
    assert len(result.content) < 400
    assert "<|im_start|>" not in result.content


@pytest.mark.parametrize(
    "arguments",
    [
        '{"do": "x", "intent": "see"}',
        '"{\\"do\\": \\"x\\", \\"intent\\": \\"see\\"}"',
        '{"arguments": {"do": "x"}, "intent": "see"}',
        '{"name": "strange", "arguments": {"do": "x", "intent": "see"}}',
        '{"arguments": "{\\"do\\": \\"x\\"}", "intent": "see"}',
        '{"do": "x", "intent": "see",}',
        "{'do': 'x', 'intent': 'see'}",
        '```json\n{"do": "x", "intent": "see"}\n```',
    ],
)
async def test_what_can_be_mended_is_and_intent_never_reaches_the_tool(arguments: str) -> None:
    tool = Strange()
    result = await registry(tool).call("id", ToolCall("c", "strange", arguments))
    assert (result.status, tool.seen, result.intent) == (ToolStatus.OK, [{"do": "x"}], "see")


@pytest.mark.parametrize(
    ("name", "arguments", "intent"),
    [
        ("search", '{"query": "Apple  2020"}', "Search: Apple 2020"),
        ("fetch", '{"id": "d1"}', "Read d1"),
        ("data", '{"entities": ["AAPL", "MSFT"]}', "Get data: AAPL, MSFT"),
        ("python", '{"code": "print(1)\\nprint(2)"}', "Run code: print(1) print(2)"),
        ("finish", '{"answer": "42"}', "Give the answer"),
        ("todo", '{"action": "add"}', "Todo list: add"),
        ("other", '{"n": 1, "what": "that"}', "Call other: that"),
        ("other", '{"intent": 3}', "Call other"),
        ("other", "{", "Call other"),
        ("search", '{"intent": " ", "query": "q"}', "Search: q"),
        ("search", '{"query": "' + "x" * 500 + '"}', "Search: " + "x" * 191 + "…"),
    ],
)
def test_a_missing_intent_is_made_from_the_arguments(name: str, arguments: str, intent: str) -> None:
    assert registry().intent(ToolCall("c", name, arguments)) == intent


@pytest.mark.parametrize("do", ["raise", "hang", "cling", "flood head", "flood findings", "lie", "bytes"])
async def test_a_tool_that_misbehaves_is_a_missing_record_that_names_it(do: str) -> None:
    reported: list[str] = []
    async with asyncio.timeout(2):
        result = await registry(reported=reported).call("id", ToolCall("c", "strange", json.dumps({"do": do})))
    assert result.status is ToolStatus.FAILED
    assert "strange" in head(result.content)["error"]
    assert [item.item["subject"] for item in result.material] == ["strange"]
    assert reported == ([] if do in ("hang", "cling", "flood head", "flood findings") else ["strange"])
    assert len(result.content) < 1_000


async def test_a_flood_is_cut_in_its_middle() -> None:
    result = await registry().call("id", ToolCall("c", "strange", '{"do": "flood"}'))
    assert (result.status, len(result.content) < 25_000) == (ToolStatus.OK, True)
    assert "characters left out" in result.content


async def test_ids_that_are_given_twice_or_not_at_all_become_distinct() -> None:
    calls = [ToolCall(name, "echo", "{}") for name in ("a", "a", "", "a_1", "")]
    ids = [call.id for call in make_ids_unique(calls)]
    assert len(set(ids)) == 5
    assert ids[0] == "a"


def test_each_kind_of_thought_has_guidance_of_its_own_in_the_schema() -> None:
    spec = next(spec for spec in registry().specs if spec.name == "think")
    kind = json.loads(spec.parameters_json)["properties"]["kind"]
    assert kind["enum"] == KINDS == list(GUIDANCE)
    assert len(set(GUIDANCE.values())) == 5
    assert all(f"{name}: {text}" in kind["description"] for name, text in GUIDANCE.items())


async def test_a_long_thought_is_kept_and_the_next_one_asked_to_be_short() -> None:
    short = await registry().call("id", ToolCall("c", "think", '{"content": "short"}'))
    long = await registry().call("id", ToolCall("c", "think", json.dumps({"content": "x" * 500})))
    assert (short.status, "tip" in short.content) == (ToolStatus.OK, False)
    assert (long.status, "under 200" in long.content) == (ToolStatus.OK, True)


@simulate_time
async def test_calls_of_one_tool_wait_for_a_place_over_all_episodes_and_the_wait_costs_no_deadline() -> None:
    metrics = Metrics.register(CollectorRegistry())
    gates = Gates(8, {"strange": 1}, metrics.waiting, metrics.wait_seconds)
    episodes = [Registry([Strange(), Think()], 0, CallLimits(5.0, {"strange": 0.2}, gates)) for _ in range(3)]
    hang = ToolCall("c", "strange", '{"do": "hang"}')
    running = [asyncio.create_task(one.call("id", hang)) for one in episodes]
    await settle()
    assert metrics.waiting.labels("strange")._value.get() == 2
    thought = await episodes[0].call("id", ToolCall("c", "think", '{"content": "meanwhile"}'))
    assert thought.status is ToolStatus.OK
    done, waiting = await asyncio.wait(running, timeout=0.3)
    assert (len(done), len(waiting)) == (1, 2), "one after the other"
    waiting.pop().cancel()
    assert [task.result().status for task in done] == [ToolStatus.FAILED]
    async with asyncio.timeout(2):
        await asyncio.wait(waiting)
    assert metrics.waiting.labels("strange")._value.get() == 0
    after = await episodes[0].call("id", ToolCall("c", "strange", '{"do": "x"}'))
    assert after.status is ToolStatus.OK


async def test_shortness_of_thoughts_can_be_switched_off_to_see_what_it_does() -> None:
    long = ToolCall("c", "think", json.dumps({"content": "x" * 500}))
    assert "tip" not in (await Registry([Think(0)]).call("id", long)).content
    assert "characters" not in Think(0).description
    assert "at most 200 characters" in Think().description


def test_thoughts_and_rounds_are_measured_from_the_steps() -> None:
    metrics = Metrics.register(CollectorRegistry())
    thoughts = [ToolCall("c", "think", json.dumps({"content": "x" * size})) for size in (100, 300)]
    results = tuple(ToolResult(call, "", "", ToolStatus.OK) for call in thoughts)
    metrics.observe_episode([Step(0, (), None, results), Step(1, (), None, ())])  # type: ignore[arg-type]
    assert metrics.thought_chars._sum.get() == 400
    assert (metrics.thoughts._sum.get(), metrics.rounds._sum.get()) == (2, 1)


@dataclass
class Away(Strange):
    """A tool that fails with these errors, then works."""

    failures: list[FathomError] = field(default_factory=list)
    calls: int = 0

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Any:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return Reply(ToolStatus.OK, {})


async def call_away(*failures: FathomError, patience_s: float, reads: bool = False, strict: bool = True) -> Any:
    tool = Away(failures=list(failures), reads=reads)
    limits = CallLimits(5.0, patience_s=patience_s, is_strict=strict)
    made = Registry([tool], 0, limits)
    try:
        return await made.call("id", ToolCall("c", "strange", '{"do": "x"}')), tool.calls, made.waits.seconds
    except PlaneFailure as error:
        return error, tool.calls, made.waits.seconds


FULL = Overloaded("all places are taken", 4.0)


@simulate_time
async def test_a_tool_that_is_full_is_asked_again_when_it_says() -> None:
    result, calls, waited = await call_away(FULL, FULL, patience_s=30)
    assert (result.status, calls, waited) == (ToolStatus.OK, 3, 8.0)


@simulate_time
async def test_without_patience_a_reader_is_told_and_a_trainer_gets_no_observation() -> None:
    failed, calls, _ = await call_away(FULL, FULL, FULL, patience_s=5)
    assert isinstance(failed, PlaneFailure)
    assert (calls, failed.metadata["culprit"]) == (2, "strange")
    result, calls, _ = await call_away(FULL, FULL, FULL, patience_s=5, strict=False)
    assert (result.status, calls) == (ToolStatus.FAILED, 2)


@simulate_time
async def test_a_call_that_may_have_acted_is_made_again_only_if_it_reads() -> None:
    for broken in (OutcomeUnknown("acme", "did not answer"), DeadlineExceeded("too late")):
        failed, calls, _ = await call_away(broken, patience_s=30)
        assert isinstance(failed, PlaneFailure)
        assert calls == 1
        result, calls, _ = await call_away(broken, patience_s=30, reads=True)
        assert (result.status, calls) == (ToolStatus.OK, 2)


@simulate_time
async def test_what_a_source_says_of_itself_is_an_observation() -> None:
    result, calls, _ = await call_away(SourceFailed("acme", "no such page"), patience_s=30)
    assert (result.status, calls) == (ToolStatus.FAILED, 1)


@simulate_time
async def test_a_defect_of_a_service_is_an_observation_of_readers_and_none_of_trainers() -> None:
    for defect in (Internal("the sandbox failed; see its log"), CorruptData("a", "is cut short")):
        failed, calls, _ = await call_away(defect, patience_s=30)
        assert isinstance(failed, PlaneFailure)
        assert calls == 1, "a repetition would meet it again"
        result, calls, _ = await call_away(defect, patience_s=30, strict=False)
        assert (result.status, calls) == (ToolStatus.FAILED, 1)


async def test_a_defect_of_a_tool_is_no_observation_of_trainers_either() -> None:
    registry = Registry([Strange()], 0, CallLimits(5.0, is_strict=True))
    with pytest.raises(PlaneFailure, match="strange broke"):
        await registry.call("id", ToolCall("c", "strange", '{"do": "raise"}'))
