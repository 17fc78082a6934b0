"""The route of a run is chosen by its worker: who asks waits for no encoder, and all legs are played by one choice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Lane
from fathom.core.errors import Conflict, InvalidField
from fathom.services.planner.questions.routing import Form, Mode, Route, Scene
from fathom.services.planner.runs.branching import branch_run
from fathom.services.planner.runs.queue import QueuedLeg, submit_run
from fathom.services.planner.runs.repository import first_leg
from tests.support.waiting import eventually
from tests.unit.planner.house import choose_form, choose_route, kinds, numbers
from tests.unit.planner.workflow.workflow_house import ANSWER, WHOLE, WorkflowHouse, stages

PLANNED = "How profitable is Apple?"
AUTO: dict[str, Any] = {"protocol": trajectory.PROTOCOL_AUTO, "conversation_id": "", "question": PLANNED}
FINISHED = trajectory.STOP_REASON_FINISHED


@dataclass
class HeldRoute:
    """Route and form of questions that come once ``open`` is set, as from an encoder that is busy."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)

    async def route(self, question: str) -> Route:
        self.asked.append(question)
        await self.open.wait()
        return await choose_route(question)

    async def find_form(self, question: str) -> Form:
        self.asked.append(question)
        await self.open.wait()
        return await choose_form(question)


def hold_encoder(house: WorkflowHouse) -> HeldRoute:
    held, preparer = HeldRoute(), house.runs.worker.preparer
    preparer.router = replace(preparer.router, route=held.route, find_form=held.find_form)
    return held


async def route_to_agent(question: str) -> Route:
    return Route(Scene.QUESTION_ANSWERING, Mode.RESEARCH, 1.0, "another planner's word")


async def follow_to(house: WorkflowHouse, until: str) -> list[pb.RunEvent]:
    """Return what the asker of a run is shown, to the first event of a kind."""
    header, found = await house.record.get_header("run_1"), list[pb.RunEvent]()
    async with asyncio.timeout(10), aclosing(house.runs.entrance.follow(header, first_leg(header))) as events:
        async for event in events:
            found.append(event)
            if event.WhichOneof("event") == until:
                break
    return found


@pytest.mark.parametrize("protocol", [trajectory.PROTOCOL_AUTO, trajectory.PROTOCOL_RESEARCH])
async def test_the_first_event_waits_for_no_encoder(protocol: trajectory.Protocol) -> None:
    house = WorkflowHouse()
    held = hold_encoder(house)
    async with house.working():
        await house.ask(**{**AUTO, "protocol": protocol})
        [first] = await follow_to(house, "waiting")
        assert (first.waiting.before, first.waiting.conversation_id) == (0, "conv_1")
        assert [run.run_id for run in (await house.runs.list(9, "")).runs] == ["run_1"], "it would outlive this planner"
        await eventually(lambda: bool(held.asked))
        assert house.policy.sampled == []
        await house.ask(**{**AUTO, "protocol": protocol})  # the same request joins it
        with pytest.raises(Conflict):
            await house.ask(**{**AUTO, "protocol": protocol, "question": "why?"})
        # The episode itself is none of this test's.
        assert "started" not in kinds(await follow_to(house, "waiting"))
        held.open.set()
        started = (await house.events(until="started"))[-1].started
    chosen = trajectory.PROTOCOL_WORKFLOW if protocol == trajectory.PROTOCOL_AUTO else protocol
    assert (started.protocol, started.form) == (chosen, pb.ANSWER_FORM_ANSWER)


async def test_the_choice_is_told_recorded_and_replayed() -> None:
    house = WorkflowHouse()
    events = await house.play(**AUTO)
    assert kinds(events)[0] == "started"
    assert (events[0].started.protocol, stages(events)) == (
        trajectory.PROTOCOL_WORKFLOW,
        ["plan", "reflect", "compose"],
    )
    assert numbers(events) == list(range(1, len(events) + 1))
    found = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory
    assert (found.protocol, found.answer.markdown) == (trajectory.PROTOCOL_WORKFLOW, ANSWER)
    assert (await house.runs.replay("run_1")).same
    branch = await branch_run(house.runs, pb.BranchRunRequest(run_id="run_1", request_id="run_2"), Lane.INTERACTIVE)
    assert (await house.record.get_header(branch)).protocol_value == trajectory.PROTOCOL_WORKFLOW


async def test_a_planner_that_is_lost_before_it_has_chosen_leaves_the_choice_to_the_next() -> None:
    house = WorkflowHouse()
    held = hold_encoder(house)
    await house.ask(**AUTO)
    async with house.working():
        await eventually(lambda: bool(held.asked))
    async with house.working(house.worker()):
        events = await house.events()
    assert (stages(events), events[-1].finished.stop_reason) == (["plan", "reflect", "compose"], FINISHED)
    assert numbers(events) == list(range(1, len(events) + 1))


async def test_what_a_lost_planner_has_chosen_holds() -> None:
    house = WorkflowHouse()
    at_work = hold_policy(house)
    await house.ask(**AUTO)
    async with house.working():
        await at_work.wait()
        running = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory
        assert running.protocol == trajectory.PROTOCOL_WORKFLOW
    other = house.worker()
    other.preparer.router = replace(other.preparer.router, route=route_to_agent)
    async with house.working(other):
        events = await house.events()
    assert (stages(events), events[-1].finished.stop_reason) == (["plan", "reflect", "compose"], FINISHED)
    assert (await house.runs.replay("run_1")).same


def hold_policy(house: WorkflowHouse) -> asyncio.Event:
    """Let the first sampling wait for ever; return the event that it has begun."""
    speak, at_work = house.policy.generate, asyncio.Event()

    async def generate(*arguments: object) -> object:
        if not at_work.is_set():
            at_work.set()
            await asyncio.Event().wait()
        return await speak(*arguments)

    house.policy.generate = generate
    return at_work


async def test_a_run_that_is_resumed_when_its_log_is_gone_is_played_as_before() -> None:
    house = WorkflowHouse()
    at_work = hold_policy(house)
    await house.ask(**AUTO)
    async with house.working():
        await at_work.wait()
        await house.runs.stop("run_1")
        await house.events()
    # The bus keeps events for a day; a new one stands for the time after it.
    later = WorkflowHouse(store=house.store)
    preparer = later.runs.worker.preparer
    preparer.router = replace(preparer.router, route=route_to_agent)
    header, leg = await later.runs.resume(pb.ResumeRunRequest(run_id="run_1"))
    await submit_run(later.bus, header, Lane.INTERACTIVE, leg)
    async with later.working():
        events = await later.events(leg=1)
    assert (stages(events), events[-1].finished.stop_reason) == (["plan", "reflect", "compose"], FINISHED)


@pytest.mark.parametrize("stage", ["plan", "nonsense"])
async def test_prompts_that_the_chosen_protocol_does_not_have_are_refused_to_the_asker(stage: str) -> None:
    house = WorkflowHouse()
    question = "why?" if stage == "plan" else PLANNED
    with pytest.raises(InvalidField) as refused:
        await house.ask(**{**AUTO, "question": question, "prompts": {stage: "v1"}})
    assert refused.value.field == f"prompts.{stage}"


async def test_an_earlier_planner_plays_an_unrouted_run_as_the_agent() -> None:
    house = WorkflowHouse({**WHOLE})
    request = pb.RunRequest(request_id="run_1", model="s", question=PLANNED, protocol=trajectory.PROTOCOL_AUTO)
    header, _ = await house.runs.begin(request)
    known: Sequence[str] = [name for name in asdict(header) if name != "is_unrouted"]
    message = f"run_1:0\n{json.dumps({name: asdict(header)[name] for name in known})}"
    read = QueuedLeg.parse(message.encode()).header
    assert read is not None
    assert (read.protocol_value, read.form, read.is_unrouted) == (trajectory.PROTOCOL_RESEARCH, "", False)
