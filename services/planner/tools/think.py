"""Tools ``think`` and ``finish``: a recorded thought, and the end of the episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.tools.tool import Reply, make_schema

# Long thoughts cost rounds of tokens and rarely change the next call.
SHORT_CHARS = 200
GUIDANCE: Mapping[str, str] = {
    "argument decomposition": "name the two to five facts that the answer stands on and which is still missing",
    "viewpoint attack": "take the present conclusion, say what would refute it and which call would show that",
    "data insight": "say what the numbers at hand show, what stands out, and what would explain it",
    "logical attribution": "link an effect to its cause step by step; name the evidence of each step and its gap",
    "plain": "say what was learnt and what comes next",
}
KINDS = list(GUIDANCE)
READING = "reading"
LISTED = {"type": "array", "items": {"type": "string", "maxLength": 120}, "maxItems": 20}


@dataclass(frozen=True)
class Think:
    """Recording of a thought, without other effects. ``short`` is the recommended length in characters, 0 for any."""

    short: int = SHORT_CHARS

    name: ClassVar[str] = "think"
    reads: ClassVar[bool] = False
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["content"],
        content={"type": "string", "minLength": 1, "maxLength": 2000},
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
        # Twice the recommendation: a tip after every slight excess costs more than it saves.
        if not self.short or len(arguments["content"]) <= 2 * self.short:
            return Reply(ToolStatus.OK)
        return Reply(ToolStatus.OK, {"tip": f"keep thoughts under {self.short} characters"})


@dataclass(frozen=True)
class Finish:
    """End of the episode. The loop handles well-formed calls itself; a call that gets here is empty or not alone."""

    name: ClassVar[str] = "finish"
    reads: ClassVar[bool] = False
    frequencies: ClassVar[tuple[str, ...]] = ("daily", "weekly", "monthly", "quarterly", "annual")
    description: ClassVar[str] = "Ends the work with the answer in Markdown."
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        ["answer"],
        restated_question={
            "type": "string",
            "maxLength": 1000,
            "description": "What is asked, in one sentence of your own; shown beside the work, not in the answer.",
        },
        form={
            "enum": ["answer", "report"],
            "description": "report when a report was asked for: its sections are then checked.",
        },
        answer={"type": "string", "minLength": 1, "description": "The answer, with [n] citations."},
        # Here and not in a tool of its own: it costs no round, and at the end a model knows what it has assumed.
        reading={
            **make_schema(
                [],
                entities=LISTED,
                indicators=LISTED,
                measures=LISTED,
                frequency={"enum": list(frequencies)},
                start={"type": "string", "description": "ISO date."},
                end={"type": "string", "description": "ISO date."},
                parameters=LISTED,
                open={**LISTED, "description": "Parts of the question that the answer leaves open."},
            ),
            "description": "Only what the question leaves to you, and what stays open.",
        },
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        if arguments["answer"].strip():
            # Behind other calls of a round the answer was written without their results.
            error = "call `finish` by itself, when you have read the results of the other calls"
        else:
            error = "finish.answer: must be a non-empty string"
        return Reply(ToolStatus.INVALID, {"error": error})
