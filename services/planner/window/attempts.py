"""Detection of steps made redundant by later ones: repeated attempts and failed code."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Message, ToolCall
from fathom.services.planner.model.episode import ToolResult, ToolStatus
from fathom.services.planner.window.blocks import Block

CITED = re.compile(r"\[(\d{1,3})\]")
FAILED = frozenset({ToolStatus.FAILED, ToolStatus.INVALID})


def find_superseded(blocks: Sequence[Block], messages: Sequence[Message]) -> set[int]:
    """Return indices of steps that may be removed: each of their calls was repeated or improved later, or made before.

    Failed code is removed once code has run successfully after it, a malformed call once the same tool was called well.
    A repetition replaces the call that it repeats unless the material of that call is cited; a rejected repetition is
    removed itself. Correction messages are removed once the model has called a tool again. The newest step always
    stays.
    """
    cited = find_citations(blocks, messages)
    return {
        block.step
        # The newest step is what the model answers to next, so it always stays.
        for position, block in enumerate(blocks[:-1])
        if all(is_removable(result, blocks[:position], blocks[position + 1 :], cited) for result in block.results)
        and (block.results or any(later.results for later in blocks[position + 1 :]))
        # A message of the planner or the user between results must not vanish with them.
        and not any(item.result is None and block.results for item in block.given)
    }


def is_removable(result: ToolResult, before: Sequence[Block], after: Sequence[Block], cited: set[int]) -> bool:
    """Return whether the result can be removed without loss."""
    later = [other for block in after for other in block.results if other.status not in FAILED]
    key = make_call_key(result.call)
    if result.status in FAILED:
        if any(material.number in cited for material in result.material):
            return False
        # Corrected code never has equal arguments, nor has a malformed call that is made well.
        tried_anew = result.call.name == "python" or result.status is ToolStatus.INVALID
        if any(
            make_call_key(other.call) == key or (tried_anew and other.call.name == result.call.name) for other in later
        ):
            return True
        earlier = [other for block in before for other in block.results if other.status not in FAILED]
        return any(make_call_key(other.call) == key for other in earlier)
    if any(material.number in cited for material in result.material):
        return False
    again = [other for other in later if make_call_key(other.call) == key]
    # A cached copy has no material of its own; its head repeats the numbers of the first result.
    copied = any(not other.material or collect_variables(result) <= collect_variables(other) for other in again)
    # Calls of the todo list are edits: an equal one later does not make the earlier one superfluous.
    return result.call.name != "todo" and copied


def collect_variables(result: ToolResult) -> set[str]:
    """Return the names of the sheets that a result put into Python."""
    return {material.variable for material in result.material if material.variable}


def make_call_key(call: ToolCall) -> tuple[str, str]:
    """Return a key that is equal for calls with the same tool and arguments, ignoring the intent."""
    try:
        arguments = json.loads(call.arguments_json)
    except ValueError:
        return call.name, call.arguments_json
    if isinstance(arguments, dict):
        arguments = {name: value for name, value in arguments.items() if name != "intent"}
    return call.name, json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def find_citations(blocks: Sequence[Block], messages: Sequence[Message]) -> set[int]:
    """Return the numbers of material that the model has cited so far."""
    return {int(number) for block in blocks for number in CITED.findall(extract_prose(block.said.text(messages)))}


def extract_prose(message: Message) -> str:
    """Return the text of a message without code, where ``x[1]`` is not a citation."""
    calls = (call.arguments_json for call in message.tool_calls if call.name != "python")
    return "\n".join([parse_tool_calls(message.content)[0], *calls])
