"""Ending of an episode that compares the answer with the question, and returns it once when parts stay open."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field, replace
from typing import Protocol

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import REWRITE
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.answering.calculation import find_computed
from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.answering.rendering.finish import RESERVE_S
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.coverage.calculation import settle_slots
from fathom.services.planner.coverage.facts import gather_facts
from fathom.services.planner.coverage.matching import SlotChecker
from fathom.services.planner.coverage.reading import READ_S, QuestionReader, bind_dates, bind_text
from fathom.services.planner.coverage.stated import STATED, read_statement, refine
from fathom.services.planner.coverage.wording import format_guess, format_line, list_open
from fathom.services.planner.model.episode import Answer, Episode, MaterialKind, ToolStatus
from fathom.services.planner.model.slots import Reading, ReadText, Slot, SlotKind, SlotSource, SlotState

INCOMPLETE = "Your answer was compared with the question, and parts of the question stay open."
# Not in the form of a finding, which names words of the answer: these are words of the question.
HOW = (
    "Answer them, with the tools where something is missing, and finish again with the whole answer. Where a part"
    " cannot be answered, say so in the first sentence and name it in `reading.open`."
)
MAX_LISTED = 12
FAILED = "its source failed"
START_S = 30.0
"""Seconds that an answer waits for a datafetch that is starting."""
BOUND = frozenset(SlotKind) - {SlotKind.UNKNOWN}


class ReviewedEnding(Protocol):
    """Ending whose review of a draft can be asked for by itself."""

    async def review(self, text: str, episode: Episode, last: bool) -> Message | None: ...

    async def build(self, text: str, episode: Episode) -> Answer: ...


@dataclass
class CoverageEnding:
    """Ending that states how the question was read and what of it the answer leaves open, around another one.

    ``returns`` lets it give an answer with open slots back to the model, once per episode.
    """

    inner: ReviewedEnding
    reader: QuestionReader
    evidence: Evidence
    returns: bool = True
    # Begun before anybody waits for it, while a LoadingCache starts with its first caller and ends with its last.
    _readings: dict[str, asyncio.Task[tuple[Slot, ...]]] = field(default_factory=dict)
    _asked: dict[str, tuple[Slot, ...]] = field(default_factory=dict)
    """Slots by question, each as it was first read."""

    def begin(self, question: str, known: ReadText | None = None) -> None:
        """Start to read the question, beside the first sampling; ``known`` is its reading if it has been read."""
        if question.strip() and question not in self._readings and known is None:
            self._readings[question] = asyncio.create_task(self.reader.read(question))
        elif known is not None:
            self._asked[question] = bind_text(question, known)

    async def close(self) -> None:
        """Cancel readings that nobody waited for."""
        for reading in self._readings.values():
            reading.cancel()
        await asyncio.gather(*self._readings.values(), return_exceptions=True)

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        """Return the answer with its reading, or one message with all that is to be mended."""
        review = await self.inner.review(text, episode, last)
        if self.returns and not last and has_room(episode):
            reading = await self.read(make_draft(text, episode), episode)
            if reading is not None and is_worth_returning(reading):
                return request_coverage(reading, episode, review)
        if review is not None:
            return review
        answer = await self.inner.build(text, episode)
        reading = await self.read(answer, episode)
        return answer if reading is None else replace(answer, reading=reading)

    async def read(self, answer: Answer, episode: Episode) -> Reading | None:
        """Return what the answer covers of the question; None when there is nothing to compare."""
        question = find_question(episode)
        if not question.strip():
            return None
        if question not in self._asked:
            self.begin(question)
            left_s = episode.task.limits.deadline - time.monotonic() - RESERVE_S
            self._asked[question] = await self._wait(question, left_s)
        asked = self._asked[question]
        slots = refine(asked, read_statement(episode.steps[-1].completion.tool_calls))
        # Small talk names nothing that has data, and nothing was looked for.
        if not any(slot.kind in BOUND for slot in slots) and not episode.material and not episode.task.guess:
            return None
        used = await gather_facts(answer, episode, self.evidence, self.reader)
        used = replace(used, alike=await self.reader.find_alike(slots))
        checked = (*list_failed(episode), *SlotChecker(used).check(slots))
        computed = find_computed(episode)
        checked = checked if computed is None else settle_slots(checked, computed)
        guess, left = episode.task.guess, list_open(question, checked)
        left = (format_guess(question, guess), *left) if guess else left
        return Reading(question, checked, format_line(question, checked, bool(guess)), left)

    async def _wait(self, question: str, left_s: float) -> tuple[Slot, ...]:
        """Return the slots of a question that is being read.

        A datafetch that is starting gets ``START_S`` of the seconds left, one that has the question ``READ_S``; behind
        that the words alone count.
        """
        reading, until = self._readings[question], time.monotonic() + min(left_s, START_S)
        while True:
            await asyncio.wait({reading}, timeout=READ_S)
            if reading.done():
                return reading.result()
            if not self.reader.is_waiting(question) or time.monotonic() >= until:
                return bind_dates(question, ())


def list_failed(episode: Episode) -> tuple[Slot, ...]:
    """Return the sub-questions of a workflow whose source failed, as open parts: no section can answer them."""
    sent = [
        (query.text, result.status)
        for step in episode.steps
        if step.stage is not None
        for query, result in zip(step.stage.sent_queries, step.results, strict=False)
    ]
    answered = {text for text, status in sent if status is ToolStatus.OK}
    failed = dict.fromkeys(text for text, status in sent if status is ToolStatus.FAILED and text not in answered)
    return tuple(
        Slot(SlotKind.UNKNOWN, text, source=SlotSource.MODEL, state=SlotState.OPEN, detail=FAILED) for text in failed
    )


def find_question(episode: Episode) -> str:
    """Return the question as a workflow rewrote it, or as it was asked."""
    rewritten = (step.stage.text for step in episode.steps if step.stage and step.stage.name == REWRITE)
    return next(filter(None, rewritten), episode.task.question)


def make_draft(text: str, episode: Episode) -> Answer:
    """Return the draft as an answer, to see what it uses."""
    checked = resolve_citations(text, [item.number for item in episode.material])
    return Answer(checked.markdown, checked.cited)


def has_room(episode: Episode) -> bool:
    """Return whether open slots were not returned yet, something was found to work with, and time is left."""
    asked = any(INCOMPLETE in message.content for step in episode.steps for message in step.new_messages)
    found = any(item.kind is not MaterialKind.MISSING for item in episode.material)
    return found and not asked and episode.task.limits.deadline - time.monotonic() > RESERVE_S


def is_worth_returning(reading: Reading) -> bool:
    """Return whether parts stay open that the model has not named as open itself, and that it can do something about.

    To return the former would teach it to say nothing.
    """
    return any(slot.detail not in (STATED, FAILED) for slot in reading.open)


def request_coverage(reading: Reading, episode: Episode, review: Message | None) -> Message:
    """Return the open slots as the result of the ``finish`` call, behind the findings of a review."""
    found = [slot for slot in reading.open if slot.detail not in (STATED, FAILED)]
    lines = [f"- {slot.kind.value} “{slot.text}”: {slot.detail}" for slot in found[:MAX_LISTED]]
    said = "\n".join([neutral(reading.line), *map(neutral, lines), "", HOW])
    if review is not None:
        return replace(review, content=f"{review.content}\n\n{INCOMPLETE}\n\n{said}")
    calls = episode.steps[-1].completion.tool_calls
    if not calls:
        return Message(Role.USER, f"{INCOMPLETE}\n\n{said}")
    head = json.dumps({"tool": "finish", "status": "open", "error": INCOMPLETE}, ensure_ascii=False)
    return Message(Role.TOOL, f"{head}\n\n{said}", tool_call_id=calls[0].id)
