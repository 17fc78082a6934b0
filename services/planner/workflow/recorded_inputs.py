"""Recorded inputs for the replay of a workflow, in place of services: library, tools, date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.core.errors import NotFound
from fathom.domain.chat.messages import Message
from fathom.domain.chat.pipeline import PLAN, REWRITE, Asked, read_ask
from fathom.services.planner.model.episode import Step
from fathom.services.planner.model.stages import LibraryLookup
from fathom.services.planner.tools.documents import Fetch
from fathom.services.planner.tools.tool import Reply, Tool, make_schema
from fathom.services.planner.workflow.enrichment import QuestionContext


@dataclass(frozen=True)
class RecordedTool:
    """A tool of the recorded run; its results come from the record, so it is never executed."""

    name: str
    description: str
    reads = True
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: make_schema([], question={"type": "string"}, query={"type": "string"})
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        raise NotFound("recorded result of", call_id)


@dataclass(frozen=True)
class RecordedInputs:
    """Inputs of the recorded stages; a ``Enricher`` that returns the recorded library lookups."""

    opening: tuple[Message, ...]
    date: str
    tools: list[Tool]
    plan: Asked
    meanings: tuple[LibraryLookup, ...]
    room: int

    async def find_context(self, question: str, chinese: bool) -> QuestionContext:
        return QuestionContext(self.plan["framework"], tuple(filter(None, self.plan["indicators"].split(", "))))

    async def look_up(self, names: Sequence[str], texts: Sequence[str], chinese: bool) -> LibraryLookup:
        """Return the lookups of the stage with these texts."""
        return next(
            # Stages are told apart by their texts; their order is not known here.
            (one for one in self.meanings if set(texts) <= one.inside.keys()),
            LibraryLookup(),
        )


def read_inputs(steps: Sequence[Step]) -> RecordedInputs:
    """Read the inputs from the prompts of the recorded stages; fields of stages not reached are empty."""
    asked = [read_ask(message.content) for step in steps for message in step.new_messages]
    found = [one for one in asked if one is not None]
    plan = next((one for one in found if one.stage == PLAN), Asked(PLAN, {}))
    first = steps[0] if steps else None
    opening = first.new_messages if first is not None and first.stage and first.stage.name == REWRITE else ()
    tools: list[Tool] = []
    for line in plan["tools"].splitlines():
        name, _, description = line.removeprefix("- ").partition(": ")
        tools.append(RecordedTool(name, description))
    if any(result.call.name == Fetch.name for step in steps for result in step.results):
        tools.append(RecordedTool(Fetch.name, ""))
    date = next((one["date"] for one in found if one["date"]), "")
    meanings = tuple(step.stage.meant for step in steps if step.stage is not None)
    room = next((step.stage.room for step in steps if step.stage is not None), 0)
    return RecordedInputs(opening, date, tools, plan, meanings, room)
