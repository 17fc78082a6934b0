"""A run with reminders: they stand before the window, and whoever has earlier turns may search them."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import FROM_MEMORY
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Step, Task
from fathom.services.planner.runs.earlier.reminders import Recaller
from tests.unit.planner.house import House, finish
from tests.unit.planner.workflow.workflow_house import WHOLE, WorkflowHouse, stages


class Memory:
    """Memory of a conversation of twelve turns, of which two are shown; it notes for whom it is asked."""

    async def get_window(self, request: pb.GetWindowRequest, timeout_s: float = 0.0) -> pb.GetWindowResponse:
        turns = [pb.WindowTurn(number=number, question=f"Q{number}?", answer="Yes.") for number in (11, 12)]
        return pb.GetWindowResponse(turns=turns, omitted=10)

    async def search_memory(self, request: pb.SearchMemoryRequest, timeout_s: float) -> pb.SearchMemoryResponse:
        turn = pb.Turn(number=1, question="What do we follow?", bullets=["The basket has three parts."])
        page = pb.MemoryPage(conversation_id="conv_1", turn=turn, score=0.9, passage="three parts")
        return pb.SearchMemoryResponse(pages=[page], has_turns=True)

    async def append_turn(self, request: pb.AppendTurnRequest) -> pb.AppendTurnResponse:
        return pb.AppendTurnResponse()


async def test_reminders_stand_before_the_window_and_offer_the_tools() -> None:
    house = House(finish("Done."))
    house.clients.__dict__["memory"] = Memory()
    seen: list[Task] = []

    def stage(task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        seen.append(task)
        return house.stage(task, steps, cut_short)

    worker = house.worker(lambda: Engine(lambda protocol: house.policy, stage))
    worker.preparer.recaller = Recaller(house.clients, house.record, 600, 1.0)
    await house.ask(question="and the basket?", conversation_id="conv_1")
    async with house.working(worker):
        await house.events()
    task = seen[0]
    assert (task.has_memory, task.conversation_id) == (True, "conv_1")
    assert task.history[0] == Message(Role.USER, "What do we follow?")
    assert task.history[1].content.startswith(FROM_MEMORY["en"])
    assert [message.content for message in task.history[2::2]] == ["Q11?", "Q12?"]
    opening = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory.steps[0].new_messages
    assert FROM_MEMORY["en"] in opening[2].content
    assert (await house.runs.replay("run_1")).same


async def test_the_workflow_s_rewriting_stage_is_shown_what_the_agent_is_reminded_of() -> None:
    window = (await Memory().get_window(pb.GetWindowRequest())).turns
    house = WorkflowHouse({**WHOLE, "rewrite": ["How did the basket of three parts do?"]}, window)
    house.clients.memory.search_memory = Memory().search_memory
    worker = house.worker()
    worker.preparer.recaller = Recaller(house.clients, house.record, 600, 1.0)
    await house.ask(question="and the basket?")
    async with house.working(worker):
        assert stages(await house.events())[0] == "rewrite"
    shown = house.policy.prompt("rewrite").sections["history"]
    assert [line for line in shown.splitlines() if line.startswith("Q")] == [
        "Q1: What do we follow?", "Q2: Q11?", "Q3: Q12?",
    ]  # fmt: skip
    # Points of it, as of any turn behind the last two: a number there is still none that an answer may cite.
    assert f"A1 (points):\n{FROM_MEMORY['en']}\n- The basket has three parts." in shown
    assert "The basket has three parts." not in str(house.policy.prompt("plan").sections)
    assert (await house.runs.replay("run_1")).same
