"""Calls of one round beside each other, repeated calls, and that both are functions of the recorded steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from prometheus_client import CollectorRegistry

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import DependencyFailed, NotFound
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.episode.loop_detector import RepeatDetector, make_call_key
from fathom.services.planner.episode.tool_calls import MAX_CALLS, PARALLEL, CallExecutor
from fathom.services.planner.metrics import Metrics
from fathom.services.planner.model.episode import MaterialKind, Step, ToolResult, ToolStatus
from fathom.services.planner.proto.episode import result_to_proto, step_from_proto
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.tool import NewMaterial, NumberedReply, Reply, Tool, make_schema
from tests.support.observer import RecordingObserver
from tests.support.waiting import eventually, settle
from tests.unit.planner.episode.test_loop import Script, echo, finish, make


@dataclass
class Slow:
    """A reading tool: the first calls take the most turns of the loop, so that answers come in the opposite order."""

    name: str = "look"
    description: str = ""
    reads: bool = True
    parameters: ClassVar[Mapping[str, Any]] = make_schema(["n"], n={"type": "integer"}, found={"type": "integer"})
    active: int = 0
    most: int = 0
    log: list[str] = field(default_factory=list)
    broken: int = 0
    """The number of calls that fail at their source."""

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
        self.active += 1
        self.most = max(self.most, self.active)
        # More turns of the event loop for smaller numbers, so that answers come in the opposite order of their calls.
        await settle(20 // (arguments["n"] + 1))
        self.active -= 1
        self.log.append(f"{self.name} {arguments['n']}")
        if self.broken:
            self.broken -= 1
            raise DependencyFailed("retrieval", "is gone")
        findings = tuple(NewMaterial(MaterialKind.PASSAGE, arguments["n"]) for _ in range(arguments.get("found", 1)))
        # Findings are numbered when the results are put in order, not when they arrive.
        return lambda first: Reply(ToolStatus.OK, {"material": first}, f"n {arguments['n']}", findings)


def call(name: str, n: int, **more: Any) -> ToolCall:
    return ToolCall(f"{name}-{n}", name, json.dumps({"intent": f"i{n}", "n": n, **more}))


def calls_over(*tools: Tool, repeats: RepeatDetector | None = None) -> tuple[CallExecutor, RecordingObserver, Metrics]:
    notes, metrics = RecordingObserver(), Metrics.register(CollectorRegistry())
    return CallExecutor("run", Registry(tools), notes, metrics, repeats or RepeatDetector()), notes, metrics


def numbers(results: Sequence[ToolResult]) -> list[list[int]]:
    return [[item.number for item in result.material] for result in results]


async def test_reads_overlap_within_a_bound_and_are_numbered_and_told_in_call_order() -> None:
    look = Slow()
    runner, notes, _ = calls_over(look)
    results = await runner.run(0, [call("look", n, found=n % 3) for n in range(10)])
    assert look.most == PARALLEL
    assert look.log != [f"look {n}" for n in range(10)], "they overlapped"
    assert numbers(results) == [[], [1], [2, 3], [], [4], [5, 6], [], [7], [8, 9], []]
    assert [json.loads(r.content.splitlines()[0])["material"] for r in results] == [1, 1, 2, 4, 4, 5, 7, 7, 8, 10]
    assert notes.log == [f"look: i{n}" for n in range(10)] + ["look ok"] * 10


async def test_what_changes_something_runs_after_the_reads_one_by_one_in_its_order() -> None:
    look, cell = Slow(), Slow("cell", reads=False)
    cell.log = look.log
    runner, notes, _ = calls_over(look, cell)
    results = await runner.run(0, [call("cell", 5), call("look", 1), call("cell", 0), call("look", 2)])
    assert look.log == ["look 2", "look 1", "cell 5", "cell 0"]
    assert cell.most == 1
    assert [r.call.id for r in results] == ["cell-5", "look-1", "cell-0", "look-2"]
    assert numbers(results) == [[3], [1], [4], [2]]
    assert notes.log == ["look: i1", "look: i2", "look ok", "look ok", "cell: i5", "cell ok", "cell: i0", "cell ok"]


async def test_a_round_has_a_bounded_number_of_calls() -> None:
    runner, _, _ = calls_over(Slow())
    results = await runner.run(0, [call("look", n) for n in range(MAX_CALLS + 3)])
    assert [r.status for r in results] == [ToolStatus.OK] * MAX_CALLS + [ToolStatus.INVALID] * 3
    assert "at most 16" in results[-1].content


async def test_a_round_that_is_cancelled_leaves_no_call_behind() -> None:
    class Endless(Slow):
        async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
            self.active += 1
            await asyncio.Event().wait()
            return await super().__call__(call_id, arguments)

    look = Endless()
    runner, _, _ = calls_over(look)
    running = asyncio.create_task(runner.run(0, [call("look", n) for n in range(3)]))
    await eventually(lambda: look.active == 3)
    assert (look.active, runner.waiting_for) == (3, "look")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    before = len(asyncio.all_tasks())
    await settle(50)  # more turns than any of them would take
    assert (look.log, len(asyncio.all_tasks())) == ([], before)


async def test_the_second_call_gets_the_first_result_and_the_third_is_blocked() -> None:
    look = Slow()
    runner, _, metrics = calls_over(look)
    found = [(await runner.run(n, [call("look", 1)]))[0] for n in range(4)]
    assert look.log == ["look 1"]
    assert [r.status for r in found] == [ToolStatus.OK, ToolStatus.OK, ToolStatus.INVALID, ToolStatus.INVALID]
    assert "n 1" in found[1].content
    assert "round 1" in json.loads(found[1].content.splitlines()[0])["notice"]
    assert (found[1].material, len(found[0].material)) == ((), 1)
    assert [r.is_cached for r in found] == [False, True, False, False]
    recorded = trajectory.Step(tool_results=[result_to_proto(replace(r, material=())) for r in found[:2]])
    recorded.completion.finish_reason = policy.FINISH_REASON_STOP
    assert [r.is_cached for r in step_from_proto(recorded).results] == [False, True]
    assert "recall" in found[2].content
    assert metrics.repeats.labels("look", "cached")._value.get() == 1
    assert metrics.repeats.labels("look", "blocked")._value.get() == 2
    rebuilt = RepeatDetector.from_steps([Step(n, (), None, (r,)) for n, r in enumerate(found[:2])])  # type: ignore[arg-type]
    instead = rebuilt.find_replacement(call("look", 1), reads=True)
    assert instead is not None
    assert instead[0] == "blocked"


async def test_equal_calls_of_one_round_run_once() -> None:
    look = Slow()
    runner, _, _ = calls_over(look)
    results = await runner.run(0, [call("look", 1), call("look", 2), call("look", 1), call("look", 1)])
    assert sorted(look.log) == ["look 1", "look 2"]
    assert [r.status.value for r in results] == ["ok", "ok", "ok", "invalid"]
    assert numbers(results) == [[1], [2], [], []]


async def test_a_source_that_fails_may_be_tried_again_three_times() -> None:
    look = Slow(broken=2)
    runner, _, _ = calls_over(look)
    found = [(await runner.run(n, [call("look", 1)]))[0].status.value for n in range(5)]
    assert found == ["failed", "failed", "ok", "ok", "invalid"]
    # After three failures of the same call a fourth is refused without asking.
    look = Slow(broken=9)
    runner, _, _ = calls_over(look)
    found = [(await runner.run(n, [call("look", 1)]))[0].status.value for n in range(5)]
    assert (found, len(look.log)) == (["failed", "failed", "failed", "invalid", "invalid"], 3)


async def test_what_was_refused_may_be_there_later() -> None:
    class Later(Slow):
        async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> NumberedReply:
            self.log.append("asked")
            if len(self.log) == 1:
                raise NotFound("document", "d1")
            return await super().__call__(call_id, arguments)

    runner, _, _ = calls_over(Later())
    found = [(await runner.run(n, [call("look", 1)]))[0].status.value for n in range(3)]
    assert found == ["invalid", "ok", "ok"]


async def test_a_cell_is_the_same_only_while_nothing_has_changed() -> None:
    cell = Slow("cell", reads=False)
    runner, _, _ = calls_over(cell)
    for n in (1, 2, 1, 1, 1):
        # Cells change the session, so the same code may have another result after another cell.
        await runner.run(n, [call("cell", n)])
    # The second and third repetition in a row were refused.
    assert cell.log == ["cell 1", "cell 2", "cell 1"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"query": "Apple  Inc", "intent": "a"}', '{"intent": "b", "query": "apple inc "}', True),
        ('{"query": "ＡＰＰＬＥ"}', '{"query": "apple"}', True),
        ('{"a": 1, "b": [1, "X"]}', '{"b": [1, "x"], "a": 1}', True),
        ('{"query": "apple"}', '{"query": "apples"}', False),
        ('{"n": 1}', '{"n": 2}', False),
        ("{", "{", True),
    ],
)
def test_what_counts_as_the_same_call(one: str, other: str, equal: bool) -> None:
    assert (make_call_key(ToolCall("a", "search", one)) == make_call_key(ToolCall("b", "search", other))) is equal
    # The same arguments for another tool are another call.
    assert make_call_key(ToolCall("a", "search", one)) != make_call_key(ToolCall("a", "data", one))


def test_code_is_the_same_to_the_letter_only() -> None:
    # Case matters in code as it does not in a query.
    one, other = '{"code": "x = \\"A\\""}', '{"code": "x = \\"a\\""}'
    assert make_call_key(ToolCall("a", "python", one)) != make_call_key(ToolCall("a", "python", other))


async def test_a_model_that_loops_is_told_and_ends_within_its_rounds() -> None:
    loop = make(Script(*[echo("again")] * 4, finish("Enough.")))
    outcome = await loop.run()
    assert outcome.answer is not None
    states = [step.results[0].status.value for step in loop.episode.steps if step.results]
    assert states == ["ok", "ok", "invalid", "invalid"]
    # The refused repetitions brought no second copy of the material.
    assert len(loop.episode.material) == 1
