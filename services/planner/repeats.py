"""Detection of repeated calls: the second identical call gets the first one's result, the third is blocked."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.errors import InvalidField
from fathom.ids import content_hash
from fathom.protocol.messages import ToolCall
from fathom.protocol.quoting import neutral
from services.planner.model import Kind, Step, ToolResult, ToolState
from services.planner.tools.arguments import read_arguments
from services.planner.tools.intents import intent_of

EXACT = frozenset({"python"})
"""Tools whose arguments are compared verbatim."""
RETRIES = 3
"""Attempts of a call that failed or was rejected, since a retry may succeed."""
CACHED, BLOCKED = "cached", "blocked"


@dataclass(frozen=True)
class Made:
    """A call executed in round ``step``."""

    key: str
    step: int
    result: ToolResult


class Repeats:
    """History of calls, derived from the recorded steps."""

    def __init__(self) -> None:
        self._made: list[Made] = []

    @classmethod
    def rebuilt(cls, steps: Sequence[Step]) -> Repeats:
        repeats = cls()
        for step in steps:
            for result in step.results:
                repeats.note(step.index, result)
        return repeats

    def note(self, step: int, result: ToolResult) -> None:
        """Add a call with its result."""
        self._made.append(Made(key(result.call), step, result))

    def instead(self, call: ToolCall, reads: bool) -> tuple[str, ToolResult] | None:
        """Return ``CACHED`` or ``BLOCKED`` with a result in place of running the call; None when it must run.

        ``reads`` says that the tool is read-only: then all earlier calls count, otherwise only those since the last
        change.
        """
        same = self._same(key(call), call.name, reads)
        if not same:
            return None
        first = next((made for made in same if not may_change(made.result)), None)
        if first is None:
            return None if len(same) < RETRIES else (BLOCKED, blocked(call, same[0].step, "failed each time"))
        if first is same[-1]:
            return CACHED, again(call, first)
        return BLOCKED, blocked(call, first.step, "gave the same each time")

    def _same(self, wanted: str, tool: str, reads: bool) -> list[Made]:
        found: list[Made] = []
        for made in reversed(self._made):
            if made.key == wanted:
                found.append(made)
            elif not reads and changed(made.result, tool):
                break
        return found[::-1]


def key(call: ToolCall) -> str:
    """Return a key that is equal for equivalent calls, ignoring intent, argument order, case, width and spacing."""
    try:
        arguments: Any = {name: value for name, value in read_arguments(call).items() if name != "intent"}
    except InvalidField:
        arguments = call.arguments_json
    if call.name not in EXACT:
        arguments = normalised(arguments)
    return content_hash([call.name, json.dumps(arguments, sort_keys=True, ensure_ascii=False)])


def normalised(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    if isinstance(value, dict):
        return {name: normalised(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [normalised(inner) for inner in value]
    return value


def changed(result: ToolResult, tool: str) -> bool:
    """Return whether a call may have changed the effect of ``tool``."""
    if result.status is not ToolState.OK or result.call.name == "think":
        return False
    return bool(result.material) or result.call.name == tool


def may_change(result: ToolResult) -> bool:
    """Return whether a retry may help: the source was unreachable, or the named object did not exist yet."""
    if result.status is ToolState.INVALID:
        return True
    return result.status is ToolState.FAILED and any(item.kind is Kind.MISSING for item in result.material)


def again(call: ToolCall, first: Made) -> ToolResult:
    """Return the first result once more; its material keeps its numbers and is not added again."""
    notice = f"the same call as in round {first.step + 1}; this is its result again, do not repeat it"
    line, newline, body = first.result.content.partition("\n")
    head = {**json.loads(line), "notice": notice}
    content = json.dumps(head, ensure_ascii=False) + newline + body
    return replace(first.result, call=call, intent=intent_of(call), content=content, duration_ms=0, material=())


def blocked(call: ToolCall, step: int, why: str) -> ToolResult:
    error = (
        f"this call was made before, first in round {step + 1}, and {why}: change the arguments, call another tool,"
        " or finish with what is known; `recall` reads an earlier result again"
    )
    content = json.dumps({"tool": call.name, "status": ToolState.INVALID.value, "error": error}, ensure_ascii=False)
    return ToolResult(call, intent_of(call), neutral(content), ToolState.INVALID)
