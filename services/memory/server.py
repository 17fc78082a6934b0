"""RPCs of the memory service: proto to and from the engine, no logic."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import FathomError
from fathom.core.ids import new_id
from fathom.hosting.deps import Deps
from fathom.services.memory.config import Config
from fathom.services.memory.engine import Conversation, Engine, Judgement, Turn
from fathom.services.memory.feedback import Feedback, Judged
from fathom.services.memory.profile.proto import fact_from_proto, fact_to_proto, stance_from_proto, stance_to_proto
from fathom.services.memory.retaining.erasing import Eraser, Keeping
from fathom.services.memory.retaining.exporting import Exporter
from fathom.services.memory.retaining.messages import (
    erased_to_proto,
    filter_from_proto,
    rows_to_proto,
    scope_from_proto,
)
from fathom.services.memory.reviews.servicer import ReviewServicer
from fathom.services.memory.rounds import Rounds
from fathom.services.memory.segments.filing import Bounds
from fathom.services.memory.segments.messages import found_to_proto, wanted_from_proto
from fathom.services.memory.segments.middle import MiddleTerm
from fathom.services.memory.segments.summarising import PolicyWriter
from fathom.services.memory.segments.vectors import DatafetchVectors
from fathom.services.memory.sheets.views import SheetView
from fathom.services.memory.times import to_timestamp
from fathom.transport.rpc.service import Service


def build(config: Config, deps: Deps) -> Service:
    """Build the memory service; the only constructor."""
    engine, log = Engine(config.find_place(), config.connections), deps.telemetry.log

    def report(error: FathomError) -> None:
        log.warning("memory goes on without a service", error=error.message)

    middle = make_middle_term(config, deps, engine, report)
    eraser = Eraser(engine.database, Keeping(config.retention_days, config.retention_days_by_tenant))
    rounds = Rounds((middle.file_all, middle.summarise, middle.add_vectors, eraser.expire), report)

    async def start() -> None:
        await engine.start()
        await rounds.start()

    async def close() -> None:
        await rounds.close()
        await engine.close()

    servicer = MemoryServicer(engine, config, middle, eraser, rounds.nudge)
    return Service("memory", servicer, start, close, changes=engine.database.watch)


def make_middle_term(config: Config, deps: Deps, engine: Engine, report: Callable[[FathomError], None]) -> MiddleTerm:
    """Return the middle-term memory on the engine's database."""
    writer = None
    if config.summary_model:
        writer = PolicyWriter(deps.clients, config.summary_model, config.summary_timeout_s)
    vectors = DatafetchVectors(deps.clients, config.encode_timeout_s, report)
    return MiddleTerm(engine.database, vectors, writer, Bounds(config.max_segments, config.segment_mib << 20), report)


class MemoryServicer(ReviewServicer):
    """Answers the RPCs of the memory service."""

    unimplemented: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        engine: Engine,
        config: Config,
        middle: MiddleTerm,
        eraser: Eraser,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the servicer; ``nudge`` is called when something was appended."""
        super().__init__(engine.reviews)
        self._engine, self._config, self._middle = engine, config, middle
        self._eraser, self._nudge = eraser, nudge
        self._exporter, self._feedback = Exporter(engine.database), Feedback(engine.database)

    async def AppendTurn(self, request: pb.AppendTurnRequest, call: Call) -> pb.AppendTurnResponse:
        given = request.turn
        parent = given.parent if given.HasField("parent") else None
        said = (given.question, given.rewritten_question, given.answer, given.run_id, tuple(given.bullets))
        turn = Turn(*said, parent=parent)
        # A caller that wants to repeat the call safely sends an id; without one every call is another turn.
        request_id = request.request_id or new_id("turn")
        stored = await self._engine.append(request_id, request.conversation_id, turn)
        self._nudge()
        return pb.AppendTurnResponse(turn=turn_to_proto(stored))

    async def SearchMemory(self, request: pb.SearchMemoryRequest, call: Call) -> pb.SearchMemoryResponse:
        wanted = wanted_from_proto(request, self._config.max_turns)
        return found_to_proto(await self._middle.search(wanted))

    async def GetWindow(self, request: pb.GetWindowRequest, call: Call) -> pb.GetWindowResponse:
        full, most = request.full_turns or self._config.full_turns, request.max_turns or self._config.max_turns
        window, omitted = await self._engine.get_window(request.conversation_id, full, most, request.through)
        turns = [
            pb.WindowTurn(
                number=turn.number, question=turn.question, answer=turn.answer, bullets=turn.bullets, run_id=turn.run
            )
            for turn in window
        ]
        return pb.GetWindowResponse(turns=turns, omitted=omitted)

    async def ListTurns(self, request: pb.ListTurnsRequest, call: Call) -> pb.ListTurnsResponse:
        asked = (request.conversation_id, request.page_size, request.page_token, request.through)
        page, token = await self._engine.list_turns(*asked, is_newest_first=request.newest_first)
        views = await self._engine.list_sheet_views(request.conversation_id)
        sheets = [pb.SheetView(sheet_id=view.sheet, title=view.title, pinned=view.pinned) for view in views]
        return pb.ListTurnsResponse(turns=[turn_to_proto(turn) for turn in page], next_page_token=token, sheets=sheets)

    async def ListConversations(self, request: pb.ListConversationsRequest, call: Call) -> pb.ListConversationsResponse:
        page, token = await self._engine.list_conversations(request.page_size, request.page_token, request.query)
        return pb.ListConversationsResponse(
            conversations=[conversation_to_proto(item) for item in page], next_page_token=token
        )

    async def UpdateConversation(
        self, request: pb.UpdateConversationRequest, call: Call
    ) -> pb.UpdateConversationResponse:
        title = request.title if request.HasField("title") else None
        pinned = request.pinned if request.HasField("pinned") else None
        sheet = None
        if request.HasField("sheet"):
            sheet = SheetView(request.sheet.sheet_id, request.sheet.title, request.sheet.pinned)
        edited = await self._engine.update(request.conversation_id, title, pinned, request.version, sheet)
        return pb.UpdateConversationResponse(conversation=conversation_to_proto(edited))

    async def DeleteConversation(
        self, request: pb.DeleteConversationRequest, call: Call
    ) -> pb.DeleteConversationResponse:
        return pb.DeleteConversationResponse(turns=await self._engine.delete(request.conversation_id))

    async def RecordFeedback(self, request: pb.RecordFeedbackRequest, call: Call) -> pb.RecordFeedbackResponse:
        request_id = request.request_id or new_id("feedback")
        said = (request.run_id, request.helpful, tuple(request.tags), request.comment, request.edited_answer)
        await self._engine.record_feedback(request_id, Judgement(*said))
        return pb.RecordFeedbackResponse()

    async def ListFeedback(self, request: pb.ListFeedbackRequest, call: Call) -> pb.ListFeedbackResponse:
        how = {"with_turn": request.with_turn, "is_newest_first": request.newest_first}
        page, token = await self._feedback.list(
            filter_from_proto(request), request.page_size, request.page_token, **how
        )
        return pb.ListFeedbackResponse(feedback=[judged_to_proto(item) for item in page], next_page_token=token)

    async def ListFacts(self, request: pb.ListFactsRequest, call: Call) -> pb.ListFactsResponse:
        page, token = await self._engine.facts.list(request.page_size, request.page_token)
        return pb.ListFactsResponse(facts=map(fact_to_proto, page), next_page_token=token)

    async def PutFact(self, request: pb.PutFactRequest, call: Call) -> pb.PutFactResponse:
        stored = await self._engine.facts.put(request.request_id or new_id("put"), fact_from_proto(request.fact))
        return pb.PutFactResponse(fact=fact_to_proto(stored))

    async def DeleteFact(self, request: pb.DeleteFactRequest, call: Call) -> pb.DeleteFactResponse:
        await self._engine.facts.delete(request.fact_id)
        return pb.DeleteFactResponse()

    async def RecordStance(self, request: pb.RecordStanceRequest, call: Call) -> pb.RecordStanceResponse:
        request_id = request.request_id or new_id("stance")
        stored = await self._engine.stances.record(request_id, stance_from_proto(request.stance))
        return pb.RecordStanceResponse(stance=stance_to_proto(stored))

    async def ListStances(self, request: pb.ListStancesRequest, call: Call) -> pb.ListStancesResponse:
        page, token = await self._engine.stances.list(tuple(request.entities), request.page_size, request.page_token)
        return pb.ListStancesResponse(stances=map(stance_to_proto, page), next_page_token=token)

    async def DeleteStance(self, request: pb.DeleteStanceRequest, call: Call) -> pb.DeleteStanceResponse:
        await self._engine.stances.delete(request.stance_id)
        return pb.DeleteStanceResponse()

    async def ExportMemory(self, request: pb.ExportMemoryRequest, call: Call) -> pb.ExportMemoryResponse:
        scope = scope_from_proto(request.scope, call)
        rows, token = await self._exporter.export(scope, request.page_size, request.page_token)
        return pb.ExportMemoryResponse(rows=rows_to_proto(rows), next_page_token=token)

    async def EraseMemory(self, request: pb.EraseMemoryRequest, call: Call) -> pb.EraseMemoryResponse:
        done = await self._eraser.erase(scope_from_proto(request.scope, call))
        return pb.EraseMemoryResponse(tables=erased_to_proto(done.rows), has_more=done.has_more)


def turn_to_proto(turn: Turn) -> pb.Turn:
    return pb.Turn(
        number=turn.number,
        question=turn.question,
        rewritten_question=turn.rewritten,
        answer=turn.answer,
        run_id=turn.run,
        end_time=to_timestamp(turn.ended),
        bullets=turn.bullets,
        parent=turn.parent,
    )


def judged_to_proto(judged: Judged) -> pb.Feedback:
    item = judged.judgement
    return pb.Feedback(
        conversation_id=judged.conversation,
        turn=turn_to_proto(judged.turn) if judged.turn else None,
        run_id=item.run,
        helpful=item.helpful,
        tags=item.tags,
        comment=item.comment,
        edited_answer=item.edited,
        create_time=to_timestamp(item.created),
    )


def conversation_to_proto(item: Conversation) -> pb.Conversation:
    return pb.Conversation(
        id=item.id,
        title=item.title,
        turns=item.turns,
        update_time=to_timestamp(item.updated),
        pinned=item.pinned,
        version=item.version,
        passage=item.passage,
    )
