"""Reminders of a run: turns of its conversation older than the window, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.api.planner.v1.planner_pb2 import RunRequest
from fathom.clients import Clients
from fathom.core.errors import FathomError
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import FROM_MEMORY
from fathom.services.planner.answering.rendering.material import estimate_tokens
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.tools.documents import format_day

# Below it a turn has little more in common with the question than the language.
LEAST_SCORE = 0.34
TURNS = 3


@dataclass(frozen=True)
class Reminder:
    """Messages of recalled turns, oldest first, and whether there is anything to recall at all."""

    messages: tuple[Message, ...] = ()
    has_memory: bool = False


@dataclass(frozen=True)
class Recaller:
    """Reminds runs of older turns; a memory that does not answer reminds of nothing."""

    clients: Clients
    record: RunRepository
    tokens: int
    """Most tokens of recalled turns in a prompt; 0 recalls none."""
    timeout_s: float
    log: Any = field(repr=False, default=None)

    async def recall(self, run_id: str, request: RunRequest, language: str) -> Reminder:
        """Return what the run is reminded of, the same for each attempt."""
        stored = await self.record.get_recalled(run_id)
        if stored is not None:
            return restore(stored)
        try:
            found = await self._search(request, language)
        except FathomError as error:
            # The run goes on without memory, in this attempt only.
            if self.log is not None:
                self.log.warning("nothing was recalled", run_id=run_id, error=error.message)
            return Reminder()
        await self.record.put_recalled(run_id, store(found))
        return found

    async def _search(self, request: RunRequest, language: str) -> Reminder:
        """Ask memory; raise ``FathomError``."""
        question, conversation = request.question, request.conversation_id
        # Outside of a conversation a question stands alone, as the episodes of trainers do.
        if not conversation:
            return Reminder()
        if request.HasField("parent_turn") and not request.parent_turn:
            # Nothing leads to a question at the beginning; what was said elsewhere may still be searched.
            return Reminder(has_memory=True)
        # In one request: a run waits for it before its first step.
        asked = pb.SearchMemoryRequest(
            question=question,
            top_k=TURNS,
            conversation_id=conversation,
            through=request.parent_turn,
            older_than_window=True,
        )
        found = await self.clients.memory.search_memory(asked, timeout_s=self.timeout_s)
        return Reminder(make_reminders(found, self.tokens, language), found.has_turns)


def make_reminders(found: pb.SearchMemoryResponse, tokens: int, language: str) -> tuple[Message, ...]:
    """Return the turns that fit as messages, oldest first, the best ones as far as the tokens go."""
    summaries = {segment.id: segment.summary for segment in found.segments}
    kept: list[tuple[int, tuple[Message, Message]]] = []
    left, told = tokens, set()
    for page in found.pages:
        # Pages stand in the order of their places, not of what they have in common with the question.
        if page.score < LEAST_SCORE:
            continue
        # What else was said of the subject, once per segment.
        summary = "" if page.segment in told else summaries.get(page.segment, "")
        for around in (summary, ""):
            pair = make_pair(page, around, language)
            cost = sum(estimate_tokens(message.content) for message in pair)
            if cost <= left:
                kept.append((page.turn.number, pair))
                left -= cost
                told.add(page.segment)
                break
    return tuple(message for _, pair in sorted(kept, key=lambda one: one[0]) for message in pair)


def make_pair(page: pb.MemoryPage, summary: str, language: str) -> tuple[Message, Message]:
    """Return a recalled turn as a question and an answer that says where it comes from."""
    turn = page.turn
    points = list(turn.bullets) or [page.passage]
    lines = [FROM_MEMORY[language], *(f"- {point}" for point in points)]
    if page.passage not in points and page.passage != (turn.rewritten_question or turn.question):
        lines.append(f"- {page.passage}")
    if summary:
        lines += ["", summary]
    day = format_day(turn.end_time)
    asked = f"[{day}] {turn.rewritten_question or turn.question}" if day else turn.rewritten_question or turn.question
    return Message(Role.USER, asked), Message(Role.ASSISTANT, "\n".join(lines))


def store(found: Reminder) -> Mapping[str, Any]:
    """Return the JSON form of a reminder."""
    said = [[message.role.value, message.content] for message in found.messages]
    return {"messages": said, "has_memory": found.has_memory}


def restore(stored: Mapping[str, Any]) -> Reminder:
    """Return a reminder from its JSON form."""
    said: Sequence[Sequence[str]] = stored["messages"]
    return Reminder(tuple(Message(Role(role), content) for role, content in said), stored["has_memory"])
