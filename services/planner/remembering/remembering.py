"""A run's side of its user's memory: what it is given at its start, and what its answer says against earlier ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.planner.v1.planner_pb2 import Effort, RunRequest
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.profile.kinds import Kind
from fathom.domain.text.language import language_of
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.model.episode import Answer, Episode, Material, Task
from fathom.services.planner.model.memory import Fact, Memory, Statement, View
from fathom.services.planner.model.slots import ENTITY, ReadText
from fathom.services.planner.proto.memory import fact_from_proto, memory_from_proto, memory_to_proto, view_from_proto
from fathom.services.planner.reader import Reader
from fathom.services.planner.remembering.choosing import fit, is_on, rank_statements
from fathom.services.planner.remembering.contradictions import (
    Contradiction,
    find_contradictions,
    join_contradictions,
    write_notes,
)
from fathom.services.planner.remembering.judging import ContradictionJudge
from fathom.services.planner.remembering.lessons import Stated
from fathom.services.planner.remembering.typed_views import ViewTypist, restore_tolerance
from fathom.services.planner.remembering.views import ViewReader, choose_sentences, find_date
from fathom.services.planner.remembering.watching import name_watched
from fathom.services.planner.workflow.rewriting import Reading

# A run waits so long for what it could also do without.
TIMEOUT_S = 5.0
# Readings of an answer's sentences take tens of milliseconds each.
COMPARE_S = 8.0
MAX_FACTS, MAX_VIEWS = 200, 50
# Entities of a question that earlier views are looked for by.
MAX_ENTITIES, MAX_STATEMENT_CHARS = 16, 400
REMEMBERED = "memory"
"""Method of a reading that memory has completed."""


class Records(Protocol):
    """Records of runs."""

    async def put_remembered(self, run_id: str, held: trajectory.Remembered) -> None:
        """Store what of its user's memory the run is given."""
        ...

    async def get_remembered(self, run_id: str) -> trajectory.Remembered | None:
        """Return what of its user's memory the run is given; None when nothing was chosen yet."""
        ...


@dataclass(frozen=True)
class Remembering:
    """Gives runs what memory holds, and compares their answers with it; a memory that is away holds nobody up."""

    clients: Clients
    record: Records
    reader: Reader
    views: ViewReader
    log: Any
    classifier: Classifier | None = None
    tokens: int = 500
    typist: ViewTypist | None = None
    """Reads views by a language model, where the run has one."""
    judge: ContradictionJudge | None = None
    """Finds by a language model what typed values cannot tell, where the run has one."""

    async def recall(self, run_id: str) -> Memory:
        """Return what the run was given when it began, else all facts that its user's memory holds."""
        # A later attempt must not see what was learnt meanwhile: its prompt would differ from the recorded one.
        stored = await self.record.get_remembered(run_id)
        return Memory(await self._list_facts()) if stored is None else memory_from_proto(stored)

    async def settle(
        self, run_id: str, held: Memory, reading: Reading, as_of: Any, *, is_whole: bool = True
    ) -> tuple[Memory, Reading]:
        """Return the memory that the run is given, within its budget, and the question with what memory adds.

        To a question that is still to be made whole (``is_whole`` False) nothing is added. Both are recorded, so that
        every attempt is given the same.
        """
        stored = await self.record.get_remembered(run_id)
        # Chosen by the first attempt alone.
        if stored is None:
            held = await self._choose(held.facts, reading, as_of, is_whole=is_whole)
            if held != Memory():
                await self.record.put_remembered(run_id, memory_to_proto(held))
        return held, complete(reading, held)

    async def _choose(self, facts: Sequence[Fact], reading: Reading, as_of: Any, *, is_whole: bool) -> Memory:
        # Neither used nor, by the worker, fed.
        if not is_on(facts):
            return Memory()
        # A follow-up has been read already.
        read = reading.read or await self.reader.read(reading.question, as_of)
        watched = next((fact for fact in facts if fact.kind is Kind.WATCH_LIST), None)
        named = name_watched(reading.question, read, watched.value) if watched and is_whole else ""
        entities = [slot.value for slot in read.of(ENTITY)] if read else []
        # Earlier views are those on what the question now names.
        if named and watched:
            entities = watched.value.split(",")
        statements = await rank_statements(facts, reading.question, self.classifier)
        chosen = [fact for fact in facts if fact.kind is not Kind.STATEMENT] + statements
        held = fit(chosen, await self._list_views(entities[:MAX_ENTITIES]), self.tokens)
        # The page marks what has changed the run itself, beside what was only shown.
        depth = held.find(Kind.DEPTH)
        applied = [fact.id for fact in (depth, watched if named else None) if fact is not None]
        return replace(held, applied=tuple(applied), question=named)

    async def note(self, answer: Answer, episode: Episode) -> tuple[Answer, Stated]:
        """Return the answer with a note where it contradicts earlier ones, and what it states."""
        task = episode.task
        question = task.read or await self.reader.read(task.question, task.as_of)
        material = [*episode.material, *answer.material]
        try:
            async with asyncio.timeout(COMPARE_S):
                found = await self.views.read(answer.markdown, question, material, as_of=task.as_of)
        # Whoever asked has waited for the answer, not for what it says of others.
        except (FathomError, TimeoutError) as error:
            self.log.warning("answer was not compared with earlier ones", run_id=task.run_id, error=repr(error))
            return answer, Stated()
        # Asked anew, and of what the answer says: the prompt had room for the question's own.
        listed = await self._list_views([*list_entities(found), *list_asked(question)][:MAX_ENTITIES])
        earlier = [restore_tolerance(one) for one in listed if one.run != task.run_id]
        statements = list_statements(answer.markdown, material)
        # Nobody waits for a model where there is nothing to contradict: then views are typed behind the answer.
        typed, judged = await self._ask(statements, task, earlier) if earlier else (None, [])
        stated = Stated(tuple(found), statements) if typed is None else Stated(tuple(typed))
        wrong = join_contradictions(find_contradictions(stated.views, earlier), judged)
        if not wrong:
            return answer, stated
        text = write_notes(wrong, language_of(task.question))
        return replace(answer, markdown=f"{answer.markdown.rstrip()}\n\n{text}"), stated

    async def _ask(
        self, statements: Sequence[Statement], task: Task, earlier: Sequence[View]
    ) -> tuple[list[View] | None, list[Contradiction]]:
        """Return the views of statements and those that contradict earlier ones, by a language model, at once."""
        if self.typist is None:
            return None, []
        asked = (statements, task.question, earlier, task.model)
        if self.judge is None:
            return await self.typist.read(*asked), []
        return await asyncio.gather(self.typist.read(*asked), self.judge.find(*asked))

    async def _list_facts(self) -> tuple[Fact, ...]:
        try:
            request = pb.ListFactsRequest(page_size=MAX_FACTS)
            response = await self.clients.memory.list_facts(request, timeout_s=TIMEOUT_S)
        except FathomError as error:
            self.log.warning("memory gives no facts", error=error.message)
            return ()
        return tuple(fact_from_proto(one) for one in response.facts)

    async def _list_views(self, entities: Sequence[str]) -> list[View]:
        # Everything would be listed, and little of it is about this question.
        if not entities:
            return []
        try:
            request = pb.ListStancesRequest(entities=entities, page_size=MAX_VIEWS)
            response = await self.clients.memory.list_stances(request, timeout_s=TIMEOUT_S)
        except FathomError as error:
            self.log.warning("memory gives no views", error=error.message)
            return []
        return [view_from_proto(one) for one in response.stances]


def choose_effort(request: RunRequest, held: Memory) -> Effort:
    """Return the effort that a request asks for, else the one that its user prefers."""
    depth = held.find(Kind.DEPTH)
    # What somebody asks for now goes before what they usually want.
    if request.effort or depth is None:
        return request.effort
    # The stubs give enum values as plain ints.
    return cast(Effort, Effort.Value(f"EFFORT_{depth.value.upper()}"))


def complete(reading: Reading, held: Memory) -> Reading:
    """Return the reading with the question that memory has completed."""
    # The reading of the shorter question no longer fits the longer one.
    if not held.question or held.question == reading.question:
        return reading
    return replace(reading, question=held.question, method=reading.method or REMEMBERED, read=None)


def list_entities(views: Sequence[View]) -> list[str]:
    return list(dict.fromkeys(view.entity for view in views))[:MAX_ENTITIES]


def list_asked(question: ReadText | None) -> list[str]:
    """Return the entities of a question, and all of them as one: a view that compares them has this name."""
    named = [slot.value for slot in question.of(ENTITY) if slot.value] if question else []
    return [*named, ",".join(sorted(named))] if len(named) > 1 else named


def list_statements(markdown: str, material: Sequence[Material]) -> tuple[Statement, ...]:
    """Return the sentences of an answer that may state a view, each with the last day of its data."""
    return tuple(
        Statement(" ".join(one.text.split())[:MAX_STATEMENT_CHARS], find_date(one.cited, material))
        for one in choose_sentences(markdown)
    )
