"""``think``: a thought as a tool call, stored and shown, without any effect (rows R07, R08)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from services.planner.model import ToolState
from services.planner.tools.tool import Reply, schema

KINDS = ["argument decomposition", "viewpoint attack", "data insight", "logical attribution", "plain"]


@dataclass(frozen=True)
class Think:
    """Keeps a thought."""

    name: ClassVar[str] = "think"
    description: ClassVar[str] = "Writes down a short thought before the next step; it has no other effect."
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["content"],
        content={"type": "string", "minLength": 1, "maxLength": 2000, "description": "The thought, short."},
        kind={"enum": KINDS, "description": "What kind of thought it is."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any], first_number: int) -> Reply:
        return Reply(ToolState.OK)


@dataclass(frozen=True)
class Finish:
    """Ends the episode. The loop takes a well-formed call before it gets here; what arrives lacks its answer."""

    name: ClassVar[str] = "finish"
    description: ClassVar[str] = "Ends the work with the answer in Markdown."
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["answer"],
        restated_question={
            "type": "string",
            "maxLength": 1000,
            "description": "What is asked, in one sentence of your own; shown beside the work, not in the answer.",
        },
        answer={"type": "string", "minLength": 1, "description": "The answer, with [n] citations."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any], first_number: int) -> Reply:
        return Reply(ToolState.INVALID, {"error": "finish.answer: must be a non-empty string"})
