"""Detection of repeated calls: the second identical call gets the first one's result, the third is blocked."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fathom.core.errors import InvalidField
from fathom.core.ids import content_hash
from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.quoting import neutral
from fathom.services.planner.model.episode import MaterialKind, Step, ToolResult, ToolStatus
from fathom.services.planner.tools.arguments import read_arguments
from fathom.services.planner.tools.intents import describe_intent

EXACT = frozenset({"python"})
"""Tools whose arguments are compared verbatim."""
RETRIES = 3
"""Attempts of a call that failed or was rejected, since a retry may succeed."""
CACHED, BLOCKED = "cached", "blocked"
# Looked up in recorded results, so a change of the words makes older runs forget that a call was repeated.
SAME_CALL, MADE_BEFORE = "the same call as in round ", "this call was made before, first in round "


@dataclass(frozen=True)
class MadeCall:
    """A call executed in round ``step``."""

    key: str
    step: int
    result: ToolResult


class RepeatDetector:
    """History of calls, derived from the recorded steps."""

    def __init__(self) -> None:
        self._made: list[MadeCall] = []

    @classmethod
    def from_steps(cls, steps: Sequence[Step]) -> RepeatDetector:
        repeats = cls()
        for step in steps:
            for result in step.results:
                repeats.add(step.index, result)
        return repeats

    def add(self, step: int, result: ToolResult) -> None:
        """Add a call with its result."""
        self._made.append(MadeCall(make_call_key(result.call), step, result))

    def find_replacement(self, call: ToolCall, reads: bool) -> tuple[str, ToolResult] | None:
        """Return ``CACHED`` or ``BLOCKED`` with a result in place of running the call; None when it must run.

        ``reads`` says that the tool is read-only: then all earlier calls count, otherwise only those since the last
        change.
        """
        same = self._find_same(make_call_key(call), call.name, reads)
        if not same:
            return None
        first = next((made for made in same if not may_change(made.result)), None)
        if first is None:
            # The source may be reachable again, or a later step may have created what the call names.
            return None if len(same) < RETRIES else (BLOCKED, block_call(call, same[0].step, "failed each time"))
        if first is same[-1]:
            return CACHED, repeat_result(call, first)
        return BLOCKED, block_call(call, first.step, "gave the same each time")

    def _find_same(self, wanted: str, tool: str, reads: bool) -> list[MadeCall]:
        found: list[MadeCall] = []
        for made in reversed(self._made):
            if made.key == wanted:
                found.append(made)
            # Calls before a change may give another result now: only those after it count as repetitions.
            elif not reads and may_affect(made.result, tool):
                break
        return found[::-1]


def make_call_key(call: ToolCall) -> str:
    """Return a key that is equal for equivalent calls, ignoring intent, argument order, case, width and spacing."""
    try:
        arguments: Any = {name: value for name, value in read_arguments(call).items() if name != "intent"}
    except InvalidField:
        arguments = call.arguments_json
    if call.name not in EXACT:
        arguments = normalise(arguments)
    return content_hash([call.name, json.dumps(arguments, sort_keys=True, ensure_ascii=False)])


def normalise(value: Any) -> Any:
    if isinstance(value, str):
        # Width, case and spacing do not change a search; in code they do, hence EXACT.
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    if isinstance(value, dict):
        return {name: normalise(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [normalise(inner) for inner in value]
    return value


def may_affect(result: ToolResult, tool: str) -> bool:
    """Return whether a call may have changed the effect of ``tool``."""
    if result.status is not ToolStatus.OK or result.call.name == "think":
        return False
    return bool(result.material) or result.call.name == tool


def may_change(result: ToolResult) -> bool:
    """Return whether a retry may help: the source was unreachable, or the named object did not exist yet."""
    if result.status is ToolStatus.INVALID:
        return True
    return result.status is ToolStatus.FAILED and any(item.kind is MaterialKind.MISSING for item in result.material)


def repeat_result(call: ToolCall, first: MadeCall) -> ToolResult:
    """Return the first result once more; its material keeps its numbers and is not added again."""
    notice = f"{SAME_CALL}{first.step + 1}; this is its result again, do not repeat it"
    line, newline, body = first.result.content.partition("\n")
    head = {**json.loads(line), "notice": notice}
    content = json.dumps(head, ensure_ascii=False) + newline + body
    again = replace(first.result, call=call, intent=describe_intent(call), content=content, duration_ms=0, material=())
    return replace(again, is_cached=True)


def is_repetition(result: ToolResult) -> bool:
    """Return whether a result stands in place of a call that was made before."""
    # Both notes begin the value of their field in the first line, which is JSON of the planner; a tool's text follows.
    head = result.content.partition("\n")[0]
    return f'"notice": "{SAME_CALL}' in head or f'"error": "{MADE_BEFORE}' in head


def block_call(call: ToolCall, step: int, why: str) -> ToolResult:
    error = (
        f"{MADE_BEFORE}{step + 1}, and {why}: change the arguments, call another tool,"
        " or finish with what is known; `recall` reads an earlier result again"
    )
    content = json.dumps({"tool": call.name, "status": ToolStatus.INVALID.value, "error": error}, ensure_ascii=False)
    return ToolResult(call, describe_intent(call), neutral(content), ToolStatus.INVALID)
