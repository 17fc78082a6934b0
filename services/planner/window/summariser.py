"""Summaries of removed steps, written by a model and validated by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.errors import FathomError
from fathom.protocol.messages import Completion, Message, Role, Usage
from services.planner.model import Episode
from services.planner.tools.tool import shortened
from services.planner.window.notes import Told
from services.planner.window.quantities import missing, numbers

ATTEMPTS, FAILURES = 2, 3
RESULT_CHARS, WHOLE_CHARS = 3_000, 40_000


class Writer(Protocol):
    """Model of the role ``writer``; idempotent by ``request_id``; raises ``FathomError``."""

    async def write(self, request_id: str, messages: Sequence[Message]) -> Completion: ...


@dataclass(frozen=True)
class Findings:
    """A summary ("" when no usable one was written), its token usage and the number of failures."""

    text: str = ""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    failures: int = 0


class Summariser:
    """Writer of summaries: at most two attempts per compaction, none after three failures in an episode."""

    def __init__(self, writer: Writer, instruction: str) -> None:
        self._writer, self._instruction = writer, instruction

    async def findings(self, episode: Episode, gone: Sequence[Told]) -> Findings:
        """Return a summary of the steps; a failure is not raised, because an extract can replace the summary."""
        failed = sum(step.compaction.failures for step in episode.steps if step.compaction is not None)
        source = source_of(episode.task.question, gone)
        messages = [Message(Role.SYSTEM, self._instruction), Message(Role.USER, source)]
        usage, failures = Usage(), 0
        for attempt in range(min(ATTEMPTS, FAILURES - failed)):
            request_id = f"{episode.task.run_id}-{len(episode.steps)}-notes-{attempt}"
            try:
                completion = await self._writer.write(request_id, messages)
            except FathomError:
                failures += 1
                continue
            usage = added(usage, completion.usage)
            problem = fault(completion.text, gone, episode.task.question)
            if not problem:
                return Findings(completion.text.strip(), usage, failures)
            failures += 1
            messages += [Message(Role.ASSISTANT, completion.text or "-"), Message(Role.USER, problem)]
        return Findings("", usage, failures)


def source_of(question: str, gone: Sequence[Told]) -> str:
    """Return the steps as text for the writer, oldest first."""
    parts = [f"Question: {question}"]
    for part in gone:
        parts.append(f"# Round {part.step.index + 1}\n{shortened(part.said, RESULT_CHARS)}")
        parts += [f"{'Result' if id else 'Said'}: {shortened(text, RESULT_CHARS)}" for id, text, _ in part.given]
    return shortened("\n\n".join(parts), WHOLE_CHARS)


def fault(text: str, gone: Sequence[Told], question: str) -> str:
    """Return the defect of a summary as feedback for the writer; "" when it is valid."""
    if not text.strip():
        return "That was empty. Write the findings."
    rounds = [str(part.step.index + 1) for part in gone]
    given = "\n".join([question, *(part.text for part in gone), *rounds])
    invented = missing(numbers(text), given)
    if invented:
        return f"These numbers do not stand in the steps: {', '.join(invented[:20])}. Write the findings without them."
    known = numbers("\n".join(text for part in gone for _, text, result in part.given if result is not None))
    if known and len(missing(known, text)) == len(known):
        return "No number of the steps is in it. Write the findings with their numbers."
    return ""


def added(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.cached_tokens + other.cached_tokens,
        one.duration_ms + other.duration_ms,
    )
