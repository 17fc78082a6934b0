"""A memory whose conversations are made of the finished runs."""

from __future__ import annotations

from functools import partial

from google.protobuf.message import Message

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.core.call import Call
from fathom.core.errors import Conflict, FathomError, NotFound
from tests.e2e.doubles.planner import ReplayPlanner
from tests.e2e.files.reviews import RPCS, ReplayReviews


class ReplayMemory:
    """Conversations made of the finished runs."""

    def __init__(self, runs: ReplayPlanner) -> None:
        self._planner = runs
        self.feedback: list[memory.RecordFeedbackRequest] = []
        self.listed_feedback: list[memory.ListFeedbackRequest] = []
        self.facts: dict[str, memory.Fact] = {}
        self.stances: list[memory.Stance] = []
        self.deleted: set[str] = set()
        self.refusal: FathomError | None = None
        """Raised by deletions."""
        self.edits: dict[str, memory.UpdateConversationRequest] = {}
        self.sheets: dict[str, dict[str, memory.SheetView]] = {}
        """Views that conversations have of their tables, by the tables' ids."""
        self.page_size = 0
        """Conversations on a page; 0 leaves it to the request."""
        self.reviews = ReplayReviews()
        for name in RPCS:
            setattr(self, name, partial(self._review, name))

    async def _review(self, name: str, request: Message, call: Call) -> Message:
        answer: Message = await getattr(await self.reviews.open(), name)(request, call)
        return answer

    def _turns(self, conversation_id: str) -> list[memory.Turn]:
        turns: list[memory.Turn] = []
        for run_id, run in self._planner.runs.items():
            if self._planner.script.conversation(run.request) == conversation_id and run.is_finished:
                answer = run.events[-1].finished.answer.markdown
                turn = memory.Turn(number=len(turns) + 1, question=run.request.question, answer=answer, run_id=run_id)
                turn.parent = run.request.parent_turn if run.request.HasField("parent_turn") else len(turns)
                turns.append(turn)
        return turns

    async def ListTurns(self, request: memory.ListTurnsRequest, call: Call) -> memory.ListTurnsResponse:
        turns = self._turns(request.conversation_id)
        if not turns or request.conversation_id in self.deleted:
            raise NotFound("conversation", request.conversation_id)
        sheets = self.sheets.get(request.conversation_id, {}).values()
        return memory.ListTurnsResponse(turns=reversed(turns) if request.newest_first else turns, sheets=sheets)

    async def ListStances(self, request: memory.ListStancesRequest, call: Call) -> memory.ListStancesResponse:
        found = [one for one in self.stances if not request.entities or one.entity in request.entities]
        start, size = int(request.page_token or 0), self.page_size or request.page_size or 100
        more = str(start + size) if len(found) > start + size else ""
        return memory.ListStancesResponse(stances=found[start : start + size], next_page_token=more)

    async def DeleteStance(self, request: memory.DeleteStanceRequest, call: Call) -> memory.DeleteStanceResponse:
        if self.refusal is not None:
            raise self.refusal
        found = [one for one in self.stances if one.id == request.stance_id]
        if not found:
            raise NotFound("stance", request.stance_id)
        self.stances.remove(found[0])
        return memory.DeleteStanceResponse()

    async def ListConversations(
        self, request: memory.ListConversationsRequest, call: Call
    ) -> memory.ListConversationsResponse:
        response = memory.ListConversationsResponse()
        for ident in dict.fromkeys(self._planner.script.conversation(r.request) for r in self._planner.runs.values()):
            turns = self._turns(ident)
            if turns and ident not in self.deleted:
                response.conversations.append(self._describe(ident))
        words = request.query.casefold().split()
        found = [item for item in response.conversations if self._find(item, words)]
        found.sort(key=lambda item: not item.pinned)
        start, size = int(request.page_token or 0), self.page_size or request.page_size or 100
        more = str(start + size) if len(found) > start + size else ""
        return memory.ListConversationsResponse(conversations=found[start : start + size], next_page_token=more)

    def _find(self, item: memory.Conversation, words: list[str]) -> bool:
        """Return whether a conversation has all words, and note the first of its turns that has one."""
        turns = [f"{turn.answer} {turn.question}" for turn in self._turns(item.id)]
        texts = [item.title, *turns]
        if words:
            item.passage = next((text for text in turns if any(word in text.casefold() for word in words)), "")[:160]
        return all(any(word in text.casefold() for text in texts) for word in words)

    def _describe(self, ident: str) -> memory.Conversation:
        turns, edit = self._turns(ident), self.edits.get(ident, memory.UpdateConversationRequest())
        title = edit.title or turns[0].question
        item = memory.Conversation(id=ident, title=title, turns=len(turns), pinned=edit.pinned, version=1)
        item.update_time.GetCurrentTime()
        return item

    async def UpdateConversation(
        self, request: memory.UpdateConversationRequest, call: Call
    ) -> memory.UpdateConversationResponse:
        if not self._turns(request.conversation_id):
            raise NotFound("conversation", request.conversation_id)
        kept = self.edits.setdefault(request.conversation_id, memory.UpdateConversationRequest())
        kept.MergeFrom(request)
        if request.HasField("sheet"):
            self.sheets.setdefault(request.conversation_id, {})[request.sheet.sheet_id] = request.sheet
        return memory.UpdateConversationResponse(conversation=self._describe(request.conversation_id))

    async def DeleteConversation(
        self, request: memory.DeleteConversationRequest, call: Call
    ) -> memory.DeleteConversationResponse:
        if self.refusal is not None:
            raise self.refusal
        self.deleted.add(request.conversation_id)
        return memory.DeleteConversationResponse(turns=len(self._turns(request.conversation_id)))

    async def RecordFeedback(self, request: memory.RecordFeedbackRequest, call: Call) -> memory.RecordFeedbackResponse:
        self.feedback.append(request)
        return memory.RecordFeedbackResponse()

    async def ListFeedback(self, request: memory.ListFeedbackRequest, call: Call) -> memory.ListFeedbackResponse:
        """List judgements of a run or a conversation, as the gateway asks for them: the newest first."""
        self.listed_feedback.append(request)
        runs = {turn.run_id for turn in self._turns(request.conversation_id)} | {request.run_id}
        found = [said for said in reversed(self.feedback) if said.run_id in runs]
        listed = [
            memory.Feedback(run_id=one.run_id, helpful=one.helpful, tags=one.tags, comment=one.comment)
            for one in found[: request.page_size]
        ]
        return memory.ListFeedbackResponse(feedback=listed)

    async def ListFacts(self, request: memory.ListFactsRequest, call: Call) -> memory.ListFactsResponse:
        return memory.ListFactsResponse(facts=self.facts.values())

    async def PutFact(self, request: memory.PutFactRequest, call: Call) -> memory.PutFactResponse:
        fact = request.fact
        known = self.facts.get(fact.id)
        if fact.id and known is None:
            raise NotFound("fact", fact.id)
        if known is not None and fact.version not in (0, known.version):
            raise Conflict("fact.version: edited meanwhile", metadata={"field": "fact.version"})
        fact.id = fact.id or f"fact_{len(self.facts) + 1}"
        fact.version = known.version + 1 if known else 1
        self.facts[fact.id] = fact
        return memory.PutFactResponse(fact=fact)

    async def DeleteFact(self, request: memory.DeleteFactRequest, call: Call) -> memory.DeleteFactResponse:
        if self.refusal is not None:
            raise self.refusal
        if self.facts.pop(request.fact_id, None) is None:
            raise NotFound("fact", request.fact_id)
        return memory.DeleteFactResponse()
