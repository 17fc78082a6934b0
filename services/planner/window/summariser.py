"""Summaries of removed steps, written by a model and validated by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.core.errors import FathomError
from fathom.domain.chat.messages import Completion, Message, Role, Usage
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.episode import Episode
from fathom.services.planner.window.notes import RemovedStep
from fathom.services.planner.window.quantities import find_missing, find_numbers

# One retry with the problem stated; a writer that failed three times in an episode costs more than it saves.
ATTEMPTS, FAILURES = 2, 3
# Characters of the writer's input, per result and in total; its window is smaller than the planner's may be.
RESULT_CHARS, WHOLE_CHARS = 3_000, 40_000


class Writer(Protocol):
    """Model of the role ``writer``; idempotent by ``request_id``; raises ``FathomError``."""

    async def write(self, request_id: str, messages: Sequence[Message]) -> Completion: ...


@dataclass(frozen=True)
class Summary:
    """A summary ("" when no usable one was written), its token usage and the number of failures."""

    text: str = ""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    failures: int = 0


class Summariser:
    """Writer of summaries: at most two attempts per compaction, none after three failures in an episode."""

    def __init__(self, writer: Writer, instruction: str) -> None:
        self._writer, self._instruction = writer, instruction

    async def summarise(self, episode: Episode, gone: Sequence[RemovedStep]) -> Summary:
        """Return a summary of the steps; a failure is not raised, because an extract can replace the summary."""
        # From the record: a resumed run must not start to count anew.
        failed = sum(step.compaction.failures for step in episode.steps if step.compaction is not None)
        source = format_source(episode.task.question, gone)
        messages = [Message(Role.SYSTEM, self._instruction), Message(Role.USER, source)]
        usage, failures = Usage(), 0
        for attempt in range(min(ATTEMPTS, FAILURES - failed)):
            request_id = f"{episode.task.run_id}-{len(episode.steps)}-notes-{attempt}"
            try:
                completion = await self._writer.write(request_id, messages)
            except FathomError:
                failures += 1
                continue
            usage += completion.usage
            problem = find_fault(completion.text, gone, episode.task.question)
            if not problem:
                return Summary(completion.text.strip(), usage, failures)
            failures += 1
            messages += [Message(Role.ASSISTANT, completion.text or "-"), Message(Role.USER, problem)]
        return Summary("", usage, failures)


def format_source(question: str, gone: Sequence[RemovedStep]) -> str:
    """Return the steps as text for the writer, oldest first."""
    parts = [f"Question: {question}"]
    for part in gone:
        parts.append(f"# Round {part.step.index + 1}\n{shorten(part.said, RESULT_CHARS)}")
        parts += [f"{'Result' if id else 'Said'}: {shorten(text, RESULT_CHARS)}" for id, text, _ in part.given]
    return shorten("\n\n".join(parts), WHOLE_CHARS)


def find_fault(text: str, gone: Sequence[RemovedStep], question: str) -> str:
    """Return the defect of a summary as feedback for the writer; "" when it is valid."""
    if not text.strip():
        return "That was empty. Write the findings."
    # A summary may name the rounds, whose numbers stand nowhere in the steps.
    rounds = [str(part.step.index + 1) for part in gone]
    given = "\n".join([question, *(part.text for part in gone), *rounds])
    invented = find_missing(find_numbers(text), given)
    if invented:
        return f"These numbers do not stand in the steps: {', '.join(invented[:20])}. Write the findings without them."
    known = find_numbers("\n".join(text for part in gone for _, text, result in part.given if result is not None))
    # One number is asked for, not all: those that lack are appended to the notes anyway.
    if known and len(find_missing(known, text)) == len(known):
        return "No number of the steps is in it. Write the findings with their numbers."
    return ""
