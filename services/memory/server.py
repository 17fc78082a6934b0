"""RPCs of the memory service: proto to and from the engine, no logic."""

from __future__ import annotations

from typing import ClassVar

from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.core.call import Call
from fathom.core.ids import new_id
from fathom.hosting.deps import Deps
from fathom.services.memory.config import Config
from fathom.services.memory.engine import Conversation, Engine, Judgement, Turn
from fathom.services.memory.profile.proto import fact_from_proto, fact_to_proto, stance_from_proto, stance_to_proto
from fathom.transport.rpc.service import Service


def build(config: Config, deps: Deps) -> Service:
    """Build the memory service; the only constructor."""
    engine = Engine(config.find_place(), config.connections)
    servicer = MemoryServicer(engine, config)
    return Service("memory", servicer, engine.start, engine.close, changes=engine.database.watch)


class MemoryServicer:
    """Answers the RPCs of the memory service."""

    unimplemented: ClassVar = {name: "recall is not implemented" for name in ("SearchMemory",)}

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine, self._config = engine, config

    async def AppendTurn(self, request: pb.AppendTurnRequest, call: Call) -> pb.AppendTurnResponse:
        given = request.turn
        turn = Turn(given.question, given.rewritten_question, given.answer, given.run_id, tuple(given.bullets))
        # A caller that wants to repeat the call safely sends an id; without one every call is another turn.
        request_id = request.request_id or new_id("turn")
        return pb.AppendTurnResponse(
            turn=turn_to_proto(await self._engine.append(request_id, request.conversation_id, turn))
        )

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
        page, token = await self._engine.list_turns(request.conversation_id, request.page_size, request.page_token)
        return pb.ListTurnsResponse(turns=[turn_to_proto(turn) for turn in page], next_page_token=token)

    async def ListConversations(self, request: pb.ListConversationsRequest, call: Call) -> pb.ListConversationsResponse:
        page, token = await self._engine.list_conversations(request.page_size, request.page_token)
        return pb.ListConversationsResponse(
            conversations=[conversation_to_proto(item) for item in page], next_page_token=token
        )

    async def UpdateConversation(
        self, request: pb.UpdateConversationRequest, call: Call
    ) -> pb.UpdateConversationResponse:
        title = request.title if request.HasField("title") else None
        pinned = request.pinned if request.HasField("pinned") else None
        return pb.UpdateConversationResponse(
            conversation=conversation_to_proto(
                await self._engine.update(request.conversation_id, title, pinned, request.version)
            )
        )

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
        page, token = await self._engine.list_feedback(request.page_size, request.page_token)
        return pb.ListFeedbackResponse(feedback=[judgement_to_proto(item) for item in page], next_page_token=token)

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
        found = await self._engine.stances.list(tuple(request.entities), request.page_size)
        return pb.ListStancesResponse(stances=map(stance_to_proto, found))


def to_timestamp(seconds: float) -> Timestamp:
    time = Timestamp()
    # FromSeconds would drop the fraction, which orders what happened within one second.
    time.FromMicroseconds(int(seconds * 1e6))
    return time


def turn_to_proto(turn: Turn) -> pb.Turn:
    return pb.Turn(
        number=turn.number,
        question=turn.question,
        rewritten_question=turn.rewritten,
        answer=turn.answer,
        run_id=turn.run,
        end_time=to_timestamp(turn.ended),
        bullets=turn.bullets,
    )


def judgement_to_proto(item: Judgement) -> pb.Feedback:
    return pb.Feedback(
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
    )
