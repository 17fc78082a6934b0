"""Operations on runs: begin, queue, resume, read, list, replay. The worker plays them."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import GetModelRequest
from fathom.api.retrieval.v1.retrieval_pb2 import SearchRequest
from fathom.clients import Clients
from fathom.clients.models import require_model
from fathom.core.call import Call, Lane, bind, current_call
from fathom.core.errors import Conflict, InvalidField, NotFound, Overloaded
from fathom.core.ids import checked_id, new_id
from fathom.core.paging import MAX_PAGE, read_token, write_token
from fathom.core.paging import page_size as checked_page_size
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.config import Config
from fathom.services.planner.episode.limits import validate_budget, validate_question
from fathom.services.planner.model.effort import Asked
from fathom.services.planner.model.episode import Limits, Task, rebuild_episode
from fathom.services.planner.proto.effort import effort_from_proto
from fathom.services.planner.proto.episode import step_from_proto, trajectory_to_proto
from fathom.services.planner.proto.recording import recording_from_proto
from fathom.services.planner.proto.window import settings_from_proto
from fathom.services.planner.runs.control import find_current_todo, find_todo_version
from fathom.services.planner.runs.conversation import (
    MAX_SHEETS,
    load_followed,
    load_sheets,
    read_history,
    validate_parent,
)
from fathom.services.planner.runs.index.entry import Entry
from fathom.services.planner.runs.log.events import fold_log, make_events_gone
from fathom.services.planner.runs.log.fold import load_history
from fathom.services.planner.runs.playing.worker import Worker
from fathom.services.planner.runs.queue import submit_run
from fathom.services.planner.runs.replay import replay
from fathom.services.planner.runs.repository import Header, Leg, RunRepository, first_leg
from fathom.services.planner.runs.routing import choose_protocol, is_routed, restore_route, take_route
from fathom.services.planner.runs.stopping import stop_run
from fathom.services.planner.runs.waiting import Entrance
from fathom.services.planner.sources import check_vendors_off, list_tools_off
from fathom.transport.bus.base import Backlog
from fathom.transport.bus.streams import DAY_S, LEGS, events_subject

# Names that policy takes in the place of a model.
MODEL_ROLES = frozenset({"planner", "writer", "coder", "judge"})
TABLELESS = frozenset({trajectory.PROTOCOL_WORKFLOW, trajectory.PROTOCOL_SEARCH_R1})
MAX_INSTRUCTION_CHARS = 16_384
# Each search asks all of them.
MAX_CORPORA = 4
# As many as connections that a client of S3 keeps.
READ_AT_ONCE = 16
RESUMABLE = (
    trajectory.STOP_REASON_STOPPED,
    trajectory.STOP_REASON_BUDGET,
    trajectory.STOP_REASON_FAILED,
    trajectory.STOP_REASON_UNFINISHED,
)


@dataclass
class Runs:
    """Run operations on headers, legs and records."""

    config: Config
    worker: Worker
    record: RunRepository
    clients: Clients

    @property
    def entrance(self) -> Entrance:
        """Return the admission of new runs."""
        return Entrance(self.worker.bus, self.worker.pace, self.config.max_queued_runs, self.config.max_queue_s)

    async def ask(self, request: pb.RunRequest, lane: Lane) -> tuple[Header, Leg]:
        """Begin a run and queue it; a repeated request joins the existing run, and is queued unless that has ended.

        Raises ``Overloaded`` when a new run would wait too long, which leaves nothing of it.
        """
        # First of all: a refusal under load must cost little.
        try:
            backlog = await self.entrance.admit(lane)
        except Overloaded:
            if not await self._is_known(request.request_id):
                raise
            backlog = Backlog(0, 0, 0)
        header, is_new = await self.begin(request)
        if not is_new:
            leg = await self.queue(header, lane)
            await self._require_events(header.run_id, leg)
            return header, leg
        # Nobody else knows the run yet: it has neither resumptions nor an end to look for.
        leg = first_leg(header)
        # Before the record: a planner that is lost in between leaves a run that is played, and none without an end.
        await submit_run(self.worker.bus, header, lane, leg)
        stored, _ = await self.record.create(header)
        # Two requests with one id may have come at once.
        require_same_request(stored, header)
        await self.entrance.note(header, leg, lane, backlog)
        return header, leg

    async def _is_known(self, run_id: str) -> bool:
        if not run_id:
            return False
        try:
            await self.record.get_header(checked_id("request_id", run_id))
        except NotFound:
            return False
        return True

    async def begin(self, request: pb.RunRequest) -> tuple[Header, bool]:
        """Validate the request and return the run's header, and whether the run is new: then it is not written yet.

        A repeated request gets the header of the existing run. What the question asks for is left to the worker: who
        asks should not wait for an encoder to know that the run is accepted.
        """
        question = validate_question(request.question, self.config.max_question_chars)
        await self._validate_tables(request)
        await self._validate_corpora(request)
        list_tools_off(self.config, request.sources_off)
        await check_vendors_off(self.clients, request.sources_off)
        validate_instructions(request)
        if request.conversation_id:
            checked_id("conversation_id", request.conversation_id)
        await validate_parent(self.clients, request)
        read_history(request.history)
        await self.worker.engine.open_recording(recording_from_proto(request.recording))
        protocol, is_unrouted = choose_protocol(request)
        if protocol not in self.worker.protocols:
            raise InvalidField("protocol", f"{request.protocol} is no protocol of this planner")
        validate_budget(request.budget)
        effort = effort_from_proto(request.effort)
        limits = self.config.grant(Asked(effort), request.model).limits
        settings_from_proto(request.window, self.config.make_window(limits.window_tokens))
        run_id = checked_id("request_id", request.request_id or new_id("run"))
        call = current_call() or Call.new()
        wanted = Header(
            run_id=run_id,
            question=question,
            conversation_id=request.conversation_id or run_id.replace("run_", "conv_", 1),
            protocol=trajectory.Protocol.Name(protocol),
            model=await self.resolve_model(request.model),
            start_time=time.time(),
            request=request.SerializeToString(deterministic=True).hex(),
            tenant=call.tenant,
            traceparent=call.traceparent,
            principal=call.principal,
            is_unrouted=is_unrouted,
        )
        if request.prompts:
            # Each protocol has stages of its own: which of the wanted prompts are wrong, only the route tells.
            if is_routed(request):
                followed = await load_followed(self.clients, self.record, request)
                wanted = await self.worker.preparer.router.settle(wanted, followed)
            self.worker.protocols[wanted.protocol_value].prompts(question, request.prompts)
        try:
            header, is_new = await self.record.get_header(run_id), False
        except NotFound:
            return wanted, True
        require_same_request(header, wanted)
        return header, is_new

    async def _validate_tables(self, request: pb.RunRequest) -> None:
        """Raise ``InvalidField`` for tables that the protocol cannot use, and ``NotFound`` for unknown ones."""
        if len(request.table_ids) > MAX_SHEETS:
            raise InvalidField("table_ids", f"names {len(request.table_ids)} tables; at most {MAX_SHEETS} are allowed")
        if request.table_ids and request.protocol in TABLELESS:
            raise InvalidField("table_ids", "are for the agent: the other protocols have no Python session")
        # Here, where the caller learns of it: a queued run could only fail.
        await load_sheets(self.clients, request.table_ids)

    async def _validate_corpora(self, request: pb.RunRequest) -> None:
        """Raise ``InvalidField`` for too many corpora, and for one that is unknown or another tenant's."""
        if len(request.corpora) > MAX_CORPORA:
            raise InvalidField("corpora", f"names {len(request.corpora)}; at most {MAX_CORPORA} are allowed")
        # Here, where the caller learns of it: a queued run would find nothing.
        for place, corpus in enumerate(request.corpora):
            try:
                await self.clients.retrieval.search(SearchRequest(queries=["?"], top_k=1, corpus=corpus))
            except InvalidField as error:
                cause = error.message.removeprefix(f"{error.field}: ")
                raise InvalidField(f"corpora[{place}]", cause) from error

    async def resolve_model(self, asked: str) -> str:
        """Resolve the model of a run; a role is resolved once, here, so that the record names a model."""
        wanted = asked or self.config.default_model
        if wanted not in MODEL_ROLES:
            # Here, where the caller learns of it: a queued run could only fail.
            await require_model(self.clients, wanted)
            return wanted
        return (await self.clients.policy.get_model(GetModelRequest(model=wanted))).model.name

    async def queue(self, header: Header, lane: Lane) -> Leg:
        """Queue the current leg, unless it has ended."""
        leg = await self.record.get_leg(header)
        if await self.record.get_end(header.run_id, leg.number) is None:
            await submit_run(self.worker.bus, header, lane, leg)
        return leg

    async def resume(self, request: pb.ResumeRunRequest, lane: Lane = Lane.INTERACTIVE) -> tuple[Header, Leg]:
        """Open and queue a new leg of a run that ended without an answer; a repeated request joins the existing one.

        Raises ``NotFound``, ``Conflict`` (it is running, or it has its answer), ``InvalidField`` (budget) and
        ``Overloaded``.
        """
        validate_budget(request.budget)
        header = await self.record.get_header(request.run_id)
        leg = await self.record.get_leg(header)
        # A repeated resumption, whose first answer was lost.
        if request.request_id and request.request_id == leg.request_id:
            return header, await self.queue(header, lane)
        finished = await self.record.get_end(request.run_id, leg.number)
        if finished is None:
            raise Conflict(f"run {request.run_id} is running", metadata={"field": "run_id"})
        ended = finished[0]
        if ended.stop_reason not in RESUMABLE:
            raise Conflict(f"run {request.run_id} has its answer", metadata={"field": "run_id"})
        backlog = await self.entrance.admit(lane)
        name = request.request_id or new_id("resume")
        following = Leg.of(leg.number + 1, name, time.time(), request.budget, len(ended.steps))
        opened = await self._open_leg(request, header, following)
        try:
            await submit_run(self.worker.bus, header, lane, opened)
        except BaseException:  # cancellation included: a leg that is not queued would stay without an end
            await asyncio.shield(self._close_leg(header, opened, replace(Entry.of(ended), leg=leg.number)))
            raise
        await self.entrance.note(header, opened, lane, backlog)
        return header, opened

    async def _close_leg(self, header: Header, leg: Leg, before: Entry) -> None:
        """Undo ``_open_leg``."""
        await self.record.discard_leg(header.run_id, leg.number)
        await self.record.put_entry(header, before)
        await self.worker.bus.bucket(LEGS).delete(f"{bind(header.run_id)}.{leg.number}")

    async def _open_leg(self, request: pb.ResumeRunRequest, header: Header, following: Leg) -> Leg:
        """Register the next leg and return it; raise ``Conflict`` when another request was first."""
        legs, key = self.worker.bus.bucket(LEGS), f"{bind(header.run_id)}.{following.number}"
        try:
            # Revision 0 creates the entry only: of several resumptions at once one opens the leg.
            await legs.put(key, json.dumps(asdict(following)).encode(), revision=0)
        except Conflict:
            entry = await legs.get(key)
            if entry is None or entry.value is None:
                raise
            first = Leg(**json.loads(entry.value))
            # The second request also records and queues the first one's leg, because the first caller may have died.
            await self.record.put_leg(header.run_id, first)
            if request.request_id and request.request_id == first.request_id:
                return first
            call = current_call()
            await submit_run(self.worker.bus, header, call.lane if call else Lane.INTERACTIVE, first)
            raise Conflict(f"run {header.run_id} is running", metadata={"field": "run_id"}) from None
        await self.record.put_leg(header.run_id, following)
        await self.record.put_entry(header, Entry(following.number))
        return following

    async def stop(self, run_id: str) -> bool:
        """End a run, immediately when a worker has it, else when one takes it; return whether a worker had it."""
        return await stop_run(self.worker.bus, self.record, run_id)

    async def find_watchable(self, run_id: str) -> tuple[Header, Leg]:
        """Return the run and the leg to follow; raise ``NotFound`` for a run that is unknown or too old."""
        header = await self.record.get_header(run_id)
        leg = await self.record.get_leg(header)
        await self._require_events(run_id, leg)
        return header, leg

    async def _require_events(self, run_id: str, leg: Leg) -> None:
        """Raise ``NotFound`` for a leg that has ended and whose events are gone."""
        # The stream drops events by age and, above its bound, the oldest ones: following it would wait for ever.
        if await self.record.get_end(run_id, leg.number) is not None and (
            leg.start_time < time.time() - DAY_S or not await self.worker.bus.last_sequence(events_subject(run_id))
        ):
            raise make_events_gone(run_id)

    async def get(self, run_id: str, lane: common.Lane) -> pb.GetRunResponse:
        """Return the run with its trajectory so far, and the runs that it has delegated."""
        header = await self.record.get_header(run_id)
        leg = await self.record.get_leg(header)
        ended = await self.record.find_end(run_id)
        running = ended is None or ended[0].leg < leg.number
        begun = None
        if ended is not None and not running:
            message = ended[0]
        else:
            fold = await fold_log(self.worker.bus, run_id)
            before = None if ended is None else ended[0]
            header = restore_route(header, fold, before)
            history = await load_history(self.record, run_id, fold, before)
            task = Task(header.run_id, header.question, header.model, Sampling(), Limits(0, 0, 0.0))
            episode = rebuild_episode(task, (), [step_from_proto(step) for step in history.steps])
            message = trajectory_to_proto(episode, None, header.protocol_value, lane, history.steps)
            begun = history.open_step
        recorded = [step_from_proto(step) for step in message.steps]
        # Readers have seen what a step that goes on has made of the list.
        known = [*recorded, *([begun] if begun else [])]
        edit = await self.record.get_edit(run_id)
        children = []
        for child in await self.record.list_children(run_id):
            with suppress(NotFound):  # it is about to begin
                children.append(await self.record.summarise(child))
        return pb.GetRunResponse(
            trajectory=message,
            running=running,
            parent_run_id=header.parent_run_id,
            conversation_id=header.conversation_id,
            children=children,
            leg=leg.number,
            todo=find_current_todo(known, edit),
            todo_version=find_todo_version(known, edit),
        )

    async def list(self, page_size: int, page_token: str) -> pb.ListRunsResponse:
        """Return a page of runs, newest first, from the index."""
        size, after = checked_page_size(min(page_size, MAX_PAGE)), ""
        if page_token:
            (last,) = read_token(page_token, "runs", (str,))
            after = str(last)
        found = await self.record.list_runs(size + 1, after)
        page = found[:size]
        slots = asyncio.Semaphore(READ_AT_ONCE)

        async def read(place: str) -> pb.RunSummary | None:
            async with slots:
                with suppress(NotFound):  # it was deleted meanwhile
                    return await self.record.get_summary(place)
                return None

        runs = [run for run in await asyncio.gather(*map(read, page)) if run is not None]
        following = write_token("runs", page[-1]) if len(found) > size else ""
        return pb.ListRunsResponse(runs=runs, next_page_token=following)

    async def replay(self, run_id: str) -> pb.ReplayRunResponse:
        """Replay the run from its record alone."""
        header = await self.record.get_header(run_id)
        recorded = await self.record.get_trajectory(run_id)
        if recorded is None:
            raise Conflict(f"run {run_id} has not ended", metadata={"field": "run_id"})
        legs = await self.record.get_legs(header)
        protocol = self.worker.protocols[take_route(header, recorded).protocol_value]
        return await replay(header, legs[: recorded.leg + 1], recorded, protocol, self.config)


def require_same_request(header: Header, wanted: Header) -> None:
    """Raise ``Conflict`` for an id that was used for another question: joining its run would answer the wrong one."""
    if header.request != wanted.request:
        raise Conflict(f"request_id {wanted.run_id!r} is another run", metadata={"field": "request_id"})


def validate_instructions(request: pb.RunRequest) -> None:
    """Raise ``InvalidField`` for instructions that are too long, or for a protocol that does not read them."""
    size = len(request.instructions)
    if size > MAX_INSTRUCTION_CHARS:
        raise InvalidField("instructions", f"has {size:,} characters; at most {MAX_INSTRUCTION_CHARS:,} are allowed")
    if size and request.protocol in TABLELESS:
        raise InvalidField("instructions", "are for the agent: the other protocols have prompts of their own")
