"""Results that are no longer shown, given again from the episode's own steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.errors import InvalidField, NotFound
from services.planner.model import Step, ToolResult
from services.planner.tools.tool import shortened
from services.planner.window.notes import EARLIER
from services.planner.window.record import result_id

ID = re.compile(r"(\d{1,4})-(\d{1,3})")
LISTED, INTENT_CHARS = 100, 120


def recalled(steps: Sequence[Step], id: str) -> ToolResult:
    """The whole result of an id such as ``3-0``; raises ``InvalidField("recall.id")``, and ``NotFound`` with others."""
    match = ID.fullmatch(id.strip())
    if match is None:
        raise InvalidField("recall.id", f"{id!r} is no id of a result, such as 3-0 (step and position)")
    index, position = int(match.group(1)), int(match.group(2))
    if index >= len(steps) or position >= len(steps[index].results):
        raise NotFound("result", id, [found for found, _ in results(steps)][-5:])
    return steps[index].results[position]


def results(steps: Sequence[Step]) -> list[tuple[str, ToolResult]]:
    """All results with their ids, oldest first."""
    return [(result_id(step.index, position), result) for step in steps for position, result in enumerate(step.results)]


def listed(steps: Sequence[Step]) -> str:
    """One line per result: id, tool, how it ended, what it was for; at most the newest hundred."""
    lines = [
        f"{id} {result.call.name} {result.status.value}: {shortened(result.intent, INTENT_CHARS)}"
        for id, result in results(steps)[-LISTED:]
    ]
    return "\n".join(lines)


def recall(steps: Sequence[Step], id: str) -> str:
    """Text of a result for the model; the id ``earlier`` gives the list of all."""
    return listed(steps) if id.strip() == EARLIER else recalled(steps, id).content
