"""``delegate``: sub-runs over the same bus, their material, their bounds, their end with their parent's."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain.chat.hermes import format_tool_call
from fathom.services.planner.model.episode import MaterialKind, ToolStatus
from fathom.services.planner.runs.subruns import make_child_id
from fathom.services.planner.tools.delegate import Delegate
from fathom.services.planner.tools.session import Session
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish, kinds, numbers


def delegate(*questions: str) -> str:
    return "\n".join(
        format_tool_call("delegate", {"intent": "to split", "question": question}) for question in questions
    )


def family(**lines: tuple[str, ...]) -> House:
    """Return a parent that asks "first part" and "second part" at once, then finishes."""
    house = House(delegate("first part", "second part"), finish("Both: [1] and [2]."))
    house.policy.by_question = {
        "first part": (echo("a", "b"), finish("B is it [2].")),
        "second part": (echo("c"), finish("C is it [1].")),
        **{name.replace("_", " "): line for name, line in lines.items()},
    }
    return house


async def result_of(house: House, place: int = 0, run_id: str = "run_1") -> trajectory.ToolResult:
    recorded = await house.record.get_trajectory(run_id)
    assert recorded is not None
    return recorded.steps[0].tool_results[place]


async def test_answers_and_cited_material_come_back_renumbered() -> None:
    house = family()
    await house.ask()
    async with house.working():
        events = await house.events()
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    assert [item.missing.subject for item in finished.material] == ["b", "c"]
    assert list(finished.answer.cited) == [1, 2]
    first, second = await result_of(house, 0), await result_of(house, 1)
    assert "B is it [1]." in first.content
    assert "C is it [2]." in second.content
    children = await house.record.list_children("run_1")
    assert sorted(children) == sorted(make_child_id("run_1", f"run_1-0-{place}") for place in range(2))
    found = await house.runs.get("run_1", common.LANE_INTERACTIVE)
    assert {child.question for child in found.children} == {"first part", "second part"}
    assert {child.parent_run_id for child in found.children} == {"run_1"}
    listed = {run.run_id: run.parent_run_id for run in (await house.runs.list(10, "")).runs}
    assert listed == {"run_1": "", **dict.fromkeys(children, "run_1")}
    assert (await house.runs.replay("run_1")).same


async def test_the_bus_carries_it_question_out_and_events_back() -> None:
    """Publish and subscribe: a reader of the child sees it begin before, and end before, its parent's call does."""
    house = family()
    await house.ask()
    name = make_child_id("run_1", "run_1-0-0")
    async with house.working():
        parent, child = await asyncio.gather(house.events(), house.events(name))
    assert kinds(child)[0] == "started"
    assert kinds(child)[-1] == "finished"
    assert numbers(child) == list(range(1, len(child) + 1))
    called = next(event for event in parent if event.HasField("tool_finished"))
    assert json.loads(called.tool_finished.result.content.split("\n")[0])["run_id"] == name
    assert child[-1].time.ToNanoseconds() <= called.time.ToNanoseconds()


async def test_a_lost_parent_joins_the_children_that_are_there() -> None:
    house = family(second_part=(echo("wait"), finish("C is it [1].")))
    await house.ask()
    async with house.working():
        await house.events(make_child_id("run_1", "run_1-0-0"))
        await eventually(lambda: len(house.policy.sampled) >= 4)
    house.release.set()
    async with house.working(house.worker()):
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert len(await house.record.list_children("run_1")) == 2
    assert len(set(house.policy.sampled)) == len(house.policy.sampled) == 6
    assert numbers(events) == list(range(1, len(events) + 1))


async def test_a_stopped_parent_stops_its_children() -> None:
    house = family(second_part=(echo("wait"), finish("C is it [1].")))
    await house.ask()
    name = make_child_id("run_1", "run_1-0-1")
    async with house.working():
        await eventually(lambda: f"{name}-0" in house.policy.sampled)
        assert await house.runs.stop("run_1")
        assert (await house.events())[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED
        child = await house.events(name)
    assert child[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED


async def test_a_childs_time_lies_within_its_parents() -> None:
    house = family()
    await house.ask(budget=pb.Budget(max_ms=20_000))
    async with house.working():
        await house.events()
    parent = await house.record.get_header("run_1")
    for name in await house.record.list_children("run_1"):
        child = await house.record.get_header(name)
        assert child.start_time + child.run_request().budget.max_ms / 1000 < parent.start_time + 20.0
        assert child.depth == 1


async def test_too_many_and_too_late_are_refused_and_the_run_goes_on() -> None:
    house = House(delegate("part one", "part two", "part three"), finish("Done."))
    house.policy.by_question = {f"part {n}": (finish("It is."),) for n in ("one", "two", "three")}
    await house.ask()
    async with house.working():
        assert (await house.events())[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    states = sorted([(await result_of(house, place)).status for place in range(3)])
    assert states == [trajectory.TOOL_STATUS_OK, trajectory.TOOL_STATUS_OK, trajectory.TOOL_STATUS_INVALID]
    late = House(delegate("first part"), finish("Done."))
    await late.ask(budget=pb.Budget(max_ms=2_000))
    async with late.working():
        await late.events()
    assert "no time is left" in (await result_of(late)).content


async def test_delegation_ends_at_the_second_depth() -> None:
    house = House(delegate("level one"), finish("Done [1]."))
    house.policy.by_question = {
        "level one": (delegate("level two"), finish("One [1].")),
        "level two": (delegate("level three"), echo("x"), finish("Two [2].")),
    }
    await house.ask()
    async with house.working():
        assert (await house.events())[-1].finished.stop_reason == trajectory.STOP_REASON_FINISHED
    first = make_child_id("run_1", "run_1-0-0")
    second = make_child_id(first, f"{first}-0-0")
    assert "no tool 'delegate'" in (await result_of(house, run_id=second)).content
    assert "Two" in (await result_of(house, run_id=first)).content


async def test_what_a_failed_child_collected_is_kept() -> None:
    house = House(delegate("first part"), finish("Only [1]."))
    house.policy.by_question = {"first part": tuple(echo(f"again {n}") for n in range(9))}
    await house.ask()
    async with house.working():
        finished = (await house.events())[-1].finished
    result = await result_of(house)
    assert result.status == trajectory.TOOL_STATUS_FAILED
    assert "was not answered (budget)" in result.content
    assert [item.missing.subject for item in finished.material] == [*(f"again {n}" for n in range(8)), "first part"]


def test_sheets_get_names_of_the_parent_and_code_is_not_run_again() -> None:
    house = House()
    session = Session(house.clients, "run_1", 1.0)
    session.put(Sheet(id="mine"))
    tool = Delegate(delegation(house), session)
    code = trajectory.CodeRecord(id="c", code="x = 1", ok=True, figures=[trajectory.Figure(id="fig_1")])
    finished = pb.RunFinished(
        stop_reason=trajectory.STOP_REASON_FINISHED,
        answer=trajectory.Answer(markdown="T {{table:sheet_1}} {{figure:fig_1}} [1][2][7]", cited=[1, 2]),
        material=[
            trajectory.Material(number=1, sheet=Sheet(id="theirs"), variable="sheet_1"),
            trajectory.Material(number=2, code=code),
            trajectory.Material(number=3, code=code),
        ],
    )
    reply = tool._make_reply(5, "run_child", "q", finished)
    assert reply.body == "T {{table:sheet_2}}  [5][6]"
    assert [(found.kind, found.variable) for found in reply.material] == [
        (MaterialKind.SHEET, "sheet_2"),
        (MaterialKind.CODE, ""),
    ]
    assert (reply.material[1].item.run_id, len(reply.material[1].item.figures)) == ("run_child", 0)
    assert reply.status is ToolStatus.OK
    from fathom.services.planner.model.episode import Material

    kept = [Material(n, found.kind, found.item, found.variable) for n, found in enumerate(reply.material, start=1)]
    assert Session.from_material(house.clients, "run_1", 1.0, kept).code == []


def delegation(house: House) -> Any:
    from fathom.services.planner.runs.subruns import Allowance, SubRunClient
    from tests.unit.planner.episode.test_loop import task

    return SubRunClient(house.bus, house.record, task(), Allowance())
