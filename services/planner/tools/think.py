"""Tools ``think`` and ``finish``: a recorded thought, and the end of the episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from services.planner.model import ToolState
from services.planner.tools.tool import Reply, schema

SHORT_CHARS = 200
GUIDANCE: Mapping[str, str] = {
    "argument decomposition": "name the two to five facts that the answer stands on and which is still missing",
    "viewpoint attack": "take the present conclusion, say what would refute it and which call would show that",
    "data insight": "say what the numbers at hand show, what stands out, and what would explain it",
    "logical attribution": "link an effect to its cause step by step; name the evidence of each step and its gap",
    "plain": "say what was learnt and what comes next",
}
KINDS = list(GUIDANCE)


@dataclass(frozen=True)
class Think:
    """Recording of a thought, without other effects. ``short`` is the recommended length in characters, 0 for any."""

    short: int = SHORT_CHARS

    name: ClassVar[str] = "think"
    reads: ClassVar[bool] = False
    parameters: ClassVar[Mapping[str, Any]] = schema(
        ["content"],
        content={"type": "string", "minLength": 1, "maxLength": 2000, "description": "The thought."},
        kind={
            "enum": KINDS,
            "description": "; ".join(f"{kind}: {guidance}" for kind, guidance in GUIDANCE.items()),
        },
    )

    @property
    def description(self) -> str:
        length = f"one short thought, at most {self.short} characters," if self.short else "a thought"
        return f"Writes down {length} before the next step; it has no other effect. Choose the kind that fits."

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        if not self.short or len(arguments["content"]) <= 2 * self.short:
            return Reply(ToolState.OK)
        return Reply(ToolState.OK, {"tip": f"keep thoughts under {self.short} characters"})


@dataclass(frozen=True)
class Finish:
    """End of the episode. The loop handles well-formed calls itself; a call that gets here is empty or not alone."""

    name: ClassVar[str] = "finish"
    reads: ClassVar[bool] = False
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

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        if arguments["answer"].strip():
            error = "call `finish` by itself, when you have read the results of the other calls"
        else:
            error = "finish.answer: must be a non-empty string"
        return Reply(ToolState.INVALID, {"error": error})
