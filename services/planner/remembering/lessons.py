"""Lessons: ended runs from which something may be learnt, in a durable queue."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from fathom.core.call import Call, bind
from fathom.services.planner.model.memory import Statement, View
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import LESSON_SUBJECT


@dataclass(frozen=True)
class Stated:
    """Statements of an answer: its views, and the sentences in which a language model may still find more."""

    views: tuple[View, ...] = ()
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """A run that has ended with an answer, and what the answer states."""

    run_id: str
    views: tuple[View, ...] = ()
    statements: tuple[Statement, ...] = ()

    @classmethod
    def parse(cls, payload: bytes) -> Lesson:
        """Return the lesson of a message of the queue."""
        data = json.loads(payload)
        # A planner of an earlier version has queued no statements.
        statements = tuple(Statement(**one) for one in data.get("statements", ()))
        return cls(data["run_id"], tuple(View(**one) for one in data["views"]), statements)


async def submit_lesson(bus: Bus, lesson: Lesson, tenant: str, traceparent: str) -> None:
    """Queue a lesson of a tenant's run, once per run."""
    # The views were read for the note already; the question is in the run's record.
    payload = json.dumps(asdict(lesson), ensure_ascii=False).encode()
    # Its consumer may be any planner, and finds the record by the tenant alone.
    origin = Call.new(tenant=tenant, traceparent=traceparent).origin()
    await bus.publish(LESSON_SUBJECT, payload, message_id=f"lesson:{bind(lesson.run_id)}", headers=origin)
