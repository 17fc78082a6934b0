"""Preparation of a leg: route, conversation, memory and reading of its question, the same for each attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory_pb
from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling, current_call
from fathom.domain.chat.messages import Message as ChatMessage
from fathom.domain.chat.proto import sampling_from_proto
from fathom.domain.text.language import language_of
from fathom.services.planner.config import Config
from fathom.services.planner.engine import AnyProtocol
from fathom.services.planner.episode.limits import cap_cost, make_limits
from fathom.services.planner.model.effort import Granted
from fathom.services.planner.model.episode import Subject, Task
from fathom.services.planner.model.memory import Memory
from fathom.services.planner.model.slots import restore_text
from fathom.services.planner.prompts.data_summary import DataSummary
from fathom.services.planner.proto.recording import recording_from_proto
from fathom.services.planner.remembering.choosing import is_on
from fathom.services.planner.remembering.remembering import Remembering
from fathom.services.planner.runs.conversation import Conversation, find_parent, load_conversation, load_followed
from fathom.services.planner.runs.earlier.reminders import Recaller, Reminder
from fathom.services.planner.runs.log.fold import StepFold
from fathom.services.planner.runs.repository import Header, Leg, RunRepository, as_of_run
from fathom.services.planner.runs.routing import RunRouter, restore_route
from fathom.services.planner.sources import list_tools_off
from fathom.services.planner.tasks import TaskMaker, Wanted, read_follow_up
from fathom.services.planner.workflow.rewriting import (
    STAGE,
    Reading,
    Rewriter,
    restore_reading,
)


@dataclass(frozen=True)
class Turn:
    """A run's leg in the hands of a worker, for the ``attempt``-th time, after ``losses`` that got it no further."""

    header: Header
    leg: Leg
    attempt: int
    losses: int
    lane: Lane


@dataclass(frozen=True)
class Prepared:
    """A leg that can be played, and whether its run may leave something in memory."""

    header: Header
    """With the route of the run."""
    task: Task
    reading: Reading
    is_learning: bool


@dataclass
class RunPreparer:
    """Preparer of legs; it asks the other services for what a run is given."""

    config: Config
    protocols: Mapping[int, AnyProtocol]
    record: RunRepository
    clients: Clients
    router: RunRouter
    summary: DataSummary | None = None
    """Summary of the data for the system prompt; None leaves it out."""
    rewriter: Rewriter | None = None
    """Makes follow-ups whole; without one each question is played in its own words."""
    remembering: Remembering | None = None
    """Source of what runs get from their user's memory; without one they get nothing."""
    recaller: Recaller | None = None
    """Reminds runs of older turns; without one they know their window alone."""

    async def prepare(
        self, turn: Turn, fold: StepFold, before: trajectory_pb.Trajectory | None, granted: Granted, held: Memory
    ) -> Prepared:
        """Return what a leg is played with; ``before`` is the end of the leg before it, ``held`` what memory holds.

        Raises ``FathomError`` while a service is away.
        """
        # Nothing has been played by a route that no log tells: its choice may be made again.
        header, leg = restore_route(turn.header, fold, before), turn.leg
        request = header.run_request()
        followed = await load_followed(self.clients, self.record, request)
        header = await self.router.settle(header, followed) if header.is_unrouted else header
        is_first = not fold.takeovers and not leg.number
        conversation = await load_conversation(self.clients, self.record, header.run_id, request, followed, is_first)
        allowed = is_on(held.facts)
        reminder = await self._recall(header, request) if allowed else Reminder()
        # Before the window, as they were said before it.
        conversation = replace(conversation, history=(*reminder.messages, *conversation.history))
        reading = await self._understand(header, conversation.history)
        held, reading = await self._settle_memory(header, held, reading, conversation.history)
        task = await self._make_task(header, request, leg, granted, conversation, reading, held, fold.worked_s)
        task = replace(
            task,
            conversation_id=header.conversation_id,
            follows=find_parent(header),
            has_memory=reminder.has_memory,
        )
        return Prepared(header, task, reading, allowed)

    async def load_memory(self, header: Header) -> Memory:
        """Return what the run was given of its user's memory, before it begins all facts of it."""
        if self.remembering is None:
            return Memory()
        with calling(replace(current_call() or Call.new(), principal=header.principal)):
            return await self.remembering.recall(header.run_id)

    async def _settle_memory(
        self, header: Header, held: Memory, reading: Reading, chat: Sequence[ChatMessage]
    ) -> tuple[Memory, Reading]:
        """Return what the run is given of the memory, and the question with what that adds."""
        if self.remembering is None:
            return held, reading
        # A workflow's own stage completes a follow-up later.
        is_whole = reading.method != STAGE or not chat
        as_of = as_of_run(header.run_request())
        return await self.remembering.settle(header.run_id, held, reading, as_of, is_whole=is_whole)

    async def _recall(self, header: Header, request: pb.RunRequest) -> Reminder:
        """Return what the run is reminded of; a delegated one of nothing."""
        if self.recaller is None or header.parent_run_id:
            return Reminder()
        return await self.recaller.recall(header.run_id, request, language_of(header.question))

    async def _understand(self, header: Header, chat: Sequence[ChatMessage]) -> Reading:
        """Return the question as it is understood after the conversation, the same for each attempt."""
        if self.rewriter is None or not chat:
            return Reading(header.question, STAGE)
        stored = await self.record.get_reading(header.run_id)
        if stored is not None:
            return restore_reading(stored)
        reading = await read_follow_up(
            self.rewriter,
            self.clients,
            header.question,
            chat,
            header.model,
            self.protocols[header.protocol_value],
            as_of_run(header.run_request()),
            header.start_time,
            restore_text(header.asked),
        )
        # A workflow's own stage is recorded with the others.
        if reading.method == STAGE:
            return reading
        await self.record.put_reading(header.run_id, asdict(reading))
        return reading

    async def _make_task(
        self,
        header: Header,
        request: pb.RunRequest,
        leg: Leg,
        granted: Granted,
        conversation: Conversation,
        reading: Reading,
        held: Memory,
        worked_s: float,
    ) -> Task:
        limits = granted.limits
        bounds = make_limits(
            limits.max_rounds,
            limits.max_tokens,
            limits.max_run_ms,
            worked_s,
            cap_cost(leg.max_cost, self.config.max_cost, "budget.max_cost"),
            leg.steps,
        )
        wanted = Wanted(
            header.run_id,
            header.question,
            reading,
            header.model,
            self.protocols[header.protocol_value],
            sampling_from_proto(request.sampling),
            bounds,
            limits,
            request.window,
            request.prompts,
            header.form,
            conversation.history,
            conversation.given,
            as_of_run(request),
            header.start_time,
            memory=held,
        )
        task = await TaskMaker(self.config, self.clients, self.summary).make(wanted)
        # A delegated question is a part of one that was not handed off.
        find_subject = None if header.depth else self.router.find_subject
        recording = recording_from_proto(request.recording)
        return replace(
            task,
            depth=header.depth,
            subject=await find_subject(reading.question) if find_subject is not None else Subject.OTHER,
            instructions=request.instructions,
            recording=recording,
            corpora=tuple(request.corpora),
            tools_off=list_tools_off(self.config, request.sources_off),
            sources_off=tuple(request.sources_off),
        )
