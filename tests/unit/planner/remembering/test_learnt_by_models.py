"""Test what a language model adds to a run: views typed during it or after it, and facts that a message takes back."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.core.errors import Conflict, NotFound
from fathom.domain.profile.kinds import Kind
from fathom.services.planner.learner import Learner
from fathom.services.planner.model.memory import Statement, View
from fathom.services.planner.remembering.extraction import Extracted, Learnt
from fathom.services.planner.remembering.lessons import Lesson
from fathom.services.planner.remembering.remembering import Remembering
from fathom.services.planner.remembering.views import ViewReader
from tests.unit.planner.house import House, echo, finish
from tests.unit.planner.remembering.test_memory_of_runs import ROSE, AppleReader, FakeMemory

FELL = View("AAPL", "close_adj/return", "2020-01-01", "2020-12-31", -1.0, "direction", "It was a lost year [1].")
ANSWER = "Apple did not do well in 2020. It was a lost year [1]."


class FixedTypist:
    """Gives the same views, and notes what it is asked; None where a model does not answer."""

    def __init__(self, views: list[View] | None) -> None:
        self.views = views
        self.asked: list[tuple[Sequence[Statement], str, Sequence[View]]] = []

    async def read(
        self, statements: Sequence[Statement], question: str, known: Sequence[View], model: str
    ) -> list[View] | None:
        self.asked.append((statements, question, known))
        return self.views


async def play(memory: FakeMemory, typist: FixedTypist) -> str:
    """Return the answer of a run whose model types views."""
    house = House(echo("a"), finish(ANSWER))
    await house.ask(question="How did Apple do in 2020?")
    worker, reader, clients = house.worker(), AppleReader(), SimpleNamespace(memory=memory)
    chosen: Any = (clients, typist)
    worker.preparer.remembering = worker.ends.remembering = Remembering(
        chosen[0], house.record, reader, ViewReader(reader), house.telemetry.log, typist=chosen[1]
    )
    async with house.working(worker):
        events = await house.events()
    return events[-1].finished.answer.markdown


async def test_a_contradiction_that_only_a_model_reads_is_noted() -> None:
    # "A lost year" has neither a number nor a measure that the reader of questions knows.
    typist = FixedTypist([FELL])
    said = await play(FakeMemory([], [ROSE]), typist)
    assert said.startswith(ANSWER)
    assert "Differs from an earlier answer" in said
    ((statements, question, known),) = typist.asked
    assert [one.text for one in statements][-1].startswith("It was a lost year")
    assert (question, [one.text for one in known]) == ("How did Apple do in 2020?", [ROSE.text])


async def test_a_model_that_does_not_answer_leaves_what_was_read_without_one() -> None:
    assert await play(FakeMemory([], [ROSE]), FixedTypist(None)) == ANSWER


async def test_nobody_waits_for_a_model_where_there_is_nothing_to_contradict() -> None:
    typist = FixedTypist([FELL])
    assert await play(FakeMemory(), typist) == ANSWER
    assert typist.asked == []


class FullMemory(FakeMemory):
    """Has facts of earlier runs, forgets them on request, and knows one stance already."""

    def __init__(self, held: Sequence[pb.Fact]) -> None:
        super().__init__()
        self.facts = list(held)
        self.gone: list[str] = []

    async def delete_fact(self, request: pb.DeleteFactRequest) -> pb.DeleteFactResponse:
        self.gone.append(request.fact_id)
        if request.fact_id == "missing":
            raise NotFound("fact", "missing")
        return pb.DeleteFactResponse()

    async def record_stance(self, request: pb.RecordStanceRequest) -> pb.RecordStanceResponse:
        if request.request_id.endswith("-0"):
            raise Conflict("is another stance")
        return await super().record_stance(request)


class ForgettingExtractor:
    """Takes back whatever is known, and notes what that was."""

    def __init__(self) -> None:
        self.known: list[str] = []

    async def extract(self, text: str, model: str = "", known: Sequence[str] = ()) -> Extracted:
        self.known = list(known)
        return Extracted((Learnt(Kind.STATEMENT, "", text, "", 0.9),), tuple(range(len(known))))


def make_fact(ident: str, **fields: Any) -> pb.Fact:
    """Return a statement that was learnt of an earlier run."""
    usual = {"origin": pb.FACT_ORIGIN_LEARNT, "kind": pb.FACT_KIND_STATEMENT, "run_id": "run_0", "text": ident}
    return pb.Fact(id=ident, **{**usual, **fields})


async def test_what_a_message_takes_back_is_deleted_if_it_was_learnt_before_and_nobody_edited_it() -> None:
    house = House()
    await house.ask(question="I sold them.")
    held = [
        make_fact("sold"),
        make_fact("missing"),
        make_fact("edited", origin=pb.FACT_ORIGIN_STATED),
        make_fact("euros", kind=pb.FACT_KIND_CURRENCY),
        make_fact("switch", kind=pb.FACT_KIND_MEMORY),
        make_fact("own", run_id="run_1"),
    ]
    memory, extractor = FullMemory(held), ForgettingExtractor()
    parts: Any = (SimpleNamespace(memory=memory), extractor)
    learner = Learner(house.bus, parts[0], house.record, parts[1], house.telemetry.log, house.config.heartbeat_s)
    await learner.learn(Lesson("run_1"), await house.record.get_header("run_1"))
    assert extractor.known == ["sold", "missing", "euros"]
    assert memory.gone == ["sold", "missing", "euros"]
    assert [fact.text for fact in memory.put.values()] == ["I sold them."]


async def test_views_are_typed_behind_the_answer_and_what_was_stored_first_stands() -> None:
    house = House()
    await house.ask(question="How did Apple do in 2020?")
    memory, typist = FullMemory(()), FixedTypist([ROSE, FELL])
    parts: Any = (SimpleNamespace(memory=memory), ForgettingExtractor(), typist)
    learner = Learner(
        house.bus, parts[0], house.record, parts[1], house.telemetry.log, house.config.heartbeat_s, parts[2]
    )
    lesson = Lesson("run_1", (), (Statement("It was a lost year [1]."),))
    await learner.learn(lesson, await house.record.get_header("run_1"))
    # The first request met another stance, which an earlier delivery had stored.
    assert list(memory.recorded) == ["run_1-view-1"]
    assert [statements for statements, _, _ in typist.asked] == [lesson.statements]
