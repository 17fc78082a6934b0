"""Runs of two tenants that chose the same id: neither sees, stops, edits or resumes the other's."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FINISHED, STOP_REASON_STOPPED
from fathom.core.call import Call, calling
from fathom.core.errors import Conflict, NotFound, Overloaded
from fathom.services.planner.runs.control import request_edit
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish

A, B, OPERATOR = Call.new(tenant="fund-7"), Call.new(tenant="fund-8"), Call.new()


async def test_equal_ids_of_two_tenants_are_two_runs() -> None:
    house = House(echo("a"), finish("It is so."))
    for call in (OPERATOR, A, B):
        with calling(call):
            await house.ask(question=f"why, {call.tenant}?")
    async with house.working():
        for call in (OPERATOR, A, B):
            with calling(call):
                events = await house.events()
                assert events[0].started.question == f"why, {call.tenant}?"
                assert events[-1].finished.stop_reason == STOP_REASON_FINISHED
                found = await house.runs.get("run_1", LANE_INTERACTIVE)
                assert found.trajectory.question == f"why, {call.tenant}?"
                assert [run.question for run in (await house.runs.list(10, "")).runs] == [f"why, {call.tenant}?"]


@pytest.mark.parametrize("call", [OPERATOR, B], ids=["default", "other"])
async def test_another_tenants_run_is_not_there(call: Call) -> None:
    house = House(echo("wait"), finish("It is so."))
    with calling(A):
        await house.ask()
    async with house.working():
        await eventually(lambda: bool(house.policy.sampled))
        with calling(call):
            asked = (
                house.runs.get("run_1", LANE_INTERACTIVE),
                house.runs.find_watchable("run_1"),
                house.runs.replay("run_1"),
                house.runs.resume(pb.ResumeRunRequest(run_id="run_1")),
                house.runs.stop("run_1"),
            )
            for ask in asked:
                with pytest.raises(NotFound, match="run_1"):
                    await ask
            with pytest.raises(Conflict, match="nobody works"):
                await request_edit(house.bus, pb.UpdateTodoRequest(run_id="run_1"))
            assert not (await house.runs.list(10, "")).runs
        house.release.set()
        with calling(A):
            assert (await house.events())[-1].finished.stop_reason == STOP_REASON_FINISHED


async def test_a_stop_reaches_the_run_of_the_tenant_who_asks() -> None:
    house = House(echo("wait"), finish("It is so."))
    for call in (A, B):
        with calling(call):
            await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
        with calling(B):
            assert await house.runs.stop("run_1")
            assert (await house.events())[-1].finished.stop_reason == STOP_REASON_STOPPED
        house.release.set()
        with calling(A):
            assert (await house.events())[-1].finished.stop_reason == STOP_REASON_FINISHED


async def test_a_resumption_that_was_refused_can_be_asked_for_again_by_any_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(echo("a"), finish("It is so."))
    publish = house.bus.publish

    async def refuse(subject: str, *arguments: Any, **named: Any) -> int:
        if subject.startswith("fathom.runs"):
            raise Overloaded("the queue is full", 1.0)
        return int(await publish(subject, *arguments, **named))

    with calling(A):
        await house.ask(budget=pb.Budget(max_rounds=1))
        async with house.working():
            await house.events()
        with monkeypatch.context() as full:
            full.setattr(house.bus, "publish", refuse)
            with pytest.raises(Overloaded):
                await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
        # Under another request: the refused one left nothing that would be taken for a leg that runs.
        _, leg = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
        async with house.working():
            assert (await house.events(leg=leg.number))[-1].finished.stop_reason == STOP_REASON_FINISHED
