"""Tool ``recall``: returns earlier results from the episode's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fathom.core.errors import InvalidField, NotFound
from fathom.domain.chat.quoting import shorten, unquote
from fathom.services.planner.model.episode import Step, ToolResult, ToolStatus
from fathom.services.planner.tools.tool import Reply, make_schema

# As a page of `fetch`; of the arguments only code is ever longer.
PAGE_CHARS, ARGUMENTS_CHARS = 6_000, 3_000


@dataclass(frozen=True)
class Recall:
    """Access to a recorded result by the number of its material or its round."""

    steps: Sequence[Step]
    """Steps of the episode; the sequence grows with it."""

    name: ClassVar[str] = "recall"
    reads: ClassVar[bool] = True
    description: ClassVar[str] = (
        "Reads again what an earlier call gave and what is no longer shown: by the number of a material, as in [3],"
        " or by the number of a round."
    )
    parameters: ClassVar[Mapping[str, Any]] = make_schema(
        [],
        material={"type": "integer", "minimum": 1},
        round={"type": "integer", "minimum": 1, "description": "Number of a round, the first is 1."},
        page={"type": "integer", "minimum": 1, "description": "Value of `more` in an earlier result, to read on."},
    )

    async def __call__(self, call_id: str, arguments: Mapping[str, Any]) -> Reply:
        if ("material" in arguments) == ("round" in arguments):
            raise InvalidField("recall.material", "give the number of a material or of a round, not both")
        if "material" in arguments:
            found, head = self._find_material(arguments["material"]), {"material": arguments["material"]}
        else:
            found, head = self._find_round(arguments["round"]), {"round": arguments["round"]}
        text, page = "\n\n".join(map(format_result, found)), arguments.get("page", 1)
        # Pages by position: the record of a step never changes, so neither does a page.
        start = (page - 1) * PAGE_CHARS
        if start and start >= len(text):
            raise InvalidField("recall.page", f"the last page is {-(-len(text) // PAGE_CHARS)}")
        more = page + 1 if start + PAGE_CHARS < len(text) else None
        return Reply(ToolStatus.OK, {**head, "more": more}, text[start : start + PAGE_CHARS])

    def _find_material(self, number: int) -> list[ToolResult]:
        results = [result for step in self.steps for result in step.results]
        found = [result for result in results if number in [item.number for item in result.material]]
        if not found:
            known = [item.number for result in results for item in result.material]
            raise NotFound("material", str(number), [f"1 to {max(known)}"] if known else ["there is none yet"])
        return found

    def _find_round(self, number: int) -> list[ToolResult]:
        found = next((step for step in self.steps if step.index == number - 1), None)
        if found is None:
            raise NotFound("round", str(number), [f"1 to {len(self.steps)}"] if self.steps else ["there is none yet"])
        return list(found.results)


def format_result(result: ToolResult) -> str:
    """Return a call with its arguments and its result."""
    line, _, body = result.content.partition("\n")
    called = f"{result.call.name} {shorten(result.call.arguments_json, ARGUMENTS_CHARS)}"
    # The reply is quoted as a whole; a quotation inside a quotation would be neutralised to noise.
    parts = (called, line, unquote(body))
    return "\n".join(part for part in parts if part.strip())
