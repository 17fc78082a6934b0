"""A follow-up as a run: the whole question is played, shown, recorded and replayed; an unclear one is asked back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.api.common.v1.common_pb2 import LANE_INTERACTIVE
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.domain.chat.messages import Message
from fathom.services.planner.engine import Engine
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Step, Task
from fathom.services.planner.runs.log.events import follow
from fathom.services.planner.runs.playing.worker import Worker
from tests.unit.planner.house import House, finish
from tests.unit.planner.questions.test_follow_ups import APPLE, PFIZER, Lexicon, make_history, make_rewriter, read


@dataclass
class Memory:
    """Memory service with one conversation."""

    chat: Sequence[Message]

    async def get_window(self, request: memory.GetWindowRequest) -> memory.GetWindowResponse:
        pairs = zip(self.chat[::2], self.chat[1::2], strict=True)
        turns = [
            memory.WindowTurn(number=number, question=asked.content, answer=answered.content)
            for number, (asked, answered) in enumerate(pairs, 1)
        ]
        return memory.GetWindowResponse(turns=turns)

    async def append_turn(self, request: memory.AppendTurnRequest) -> memory.AppendTurnResponse:
        return memory.AppendTurnResponse()


def make_worker(house: House, chat: Sequence[Message]) -> Worker:
    house.clients.__dict__["memory"] = Memory(chat)
    worker, rewriter = house.worker(), make_rewriter()
    worker.preparer.rewriter = rewriter
    worker.preparer.router = replace(worker.preparer.router, rewriter=rewriter)
    return worker


async def play(house: House, chat: Sequence[Message], question: str) -> list[pb.RunEvent]:
    worker = make_worker(house, chat)
    await house.ask(question=question, conversation_id="conv_1")
    async with house.working(worker):
        return [event async for event in follow(house.bus, "run_1", 0, 0)]


async def test_the_whole_question_is_what_runs_and_what_is_recorded() -> None:
    house = House(finish("-20.1%."))
    events = await play(house, make_history(PFIZER), "and Lilly?")
    whole = "What was Lilly's maximum drawdown in 2020?"
    assert [event.staged.stage.text for event in events if event.HasField("staged")] == [whole]
    found = (await house.runs.get("run_1", LANE_INTERACTIVE)).trajectory
    assert (found.question, found.understood) == ("and Lilly?", whole)
    opening = found.steps[0].new_messages
    assert opening[-1].content.startswith(whole)
    assert len(opening) == 4, "the conversation stands before the question"
    assert (await house.runs.replay("run_1")).same


async def test_an_unclear_reference_ends_in_a_question_without_a_round() -> None:
    house = House(finish("never said"))
    events = await play(house, make_history(APPLE), "它的波动率呢？")
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED
    assert finished.answer.clarification.reference == "它的波动率呢？"
    assert len(finished.answer.clarification.options) == 3
    assert house.policy.sampled == []
    assert (await house.runs.replay("run_1")).same


async def test_a_second_attempt_plays_the_question_of_the_first() -> None:
    house = House(finish("Done."))
    await house.ask(question="and Lilly?")
    header = await house.record.get_header("run_1")
    first = await make_worker(house, make_history(PFIZER)).preparer._understand(header, make_history(PFIZER))
    # Another conversation would give another question: the stored one counts.
    second = await make_worker(house, make_history(APPLE)).preparer._understand(header, make_history(APPLE))
    assert first == second


async def test_a_question_is_read_once_from_its_routing_to_its_check() -> None:
    house, tasks = House(finish("Done.")), []
    worker = make_worker(house, make_history(PFIZER))
    lexicon = worker.preparer.rewriter.reader if worker.preparer.rewriter else None
    assert isinstance(lexicon, Lexicon)

    def stage(task: Task, steps: Sequence[Step], cut_short: Step | None) -> EpisodeResources:
        tasks.append(task)
        return house.stage(task, steps, cut_short)

    worker.engine = Engine(lambda protocol: house.policy, stage)
    question = "What was Apple's return in 2019?"
    house.runs.worker = worker
    await house.ask(question=question, conversation_id="conv_1", protocol=trajectory.PROTOCOL_AUTO)
    async with house.working(worker):
        await house.events()
    assert lexicon.texts.count(question) == 1
    assert [(task.question, task.read) for task in tasks] == [(question, read(question))]
