"""Hermes-style tool calls: JSON objects between ``<tool_call>`` tags, parsed tolerantly.

Models make mistakes: fences, trailing commas, full-width punctuation, Python literals, several objects in one tag,
arguments as a string, a tag that never closes. Text that still cannot be read as a call stays prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fathom.core.ids import sha256
from fathom.domain.chat.messages import ToolCall
from fathom.domain.chat.tolerant import DECODER, FENCE, read_object

OPEN, CLOSE = "<tool_call>", "</tool_call>"
# What may stand between the tag and its object, and between objects: fences, brackets of a list, commas, numbering.
BEFORE = re.compile(r"(?:\s|```[a-zA-Z]*|\[|,|，|\d+[.)、])*")
AFTER = re.compile(r"(?:\s|```|\]|,|，)*(?:</tool_call>)?")


def parse_tool_calls(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Split ``text`` into its prose and its tool calls, in order; never raises.

    Without any tag, a text that is only one (fenced) object with name and arguments is a call, too.
    """
    calls: list[ToolCall] = []
    prose: list[str] = []
    position = 0
    while (start := text.find(OPEN, position)) >= 0:
        prose.append(text[position:start])
        found, position = read_tag(text, start + len(OPEN))
        if not found:
            prose.append(text[start:position])
        calls += [number_call(call, len(calls) + offset) for offset, call in enumerate(found)]
    prose.append(text[position:])
    if not calls and (whole := bare_call(text)) is not None:
        return "", (number_call(whole, 0),)
    return "".join(prose).strip(), tuple(calls)


def read_tag(text: str, start: int) -> tuple[list[dict[str, Any]], int]:
    """Parse the calls of the tag whose content begins at ``start``; return them and the position after it."""
    position, found = start, []
    # Well-formed objects first, by the decoder: then a closing tag inside a string argument ends nothing.
    while True:
        begin = BEFORE.match(text, position)
        try:
            value, end = DECODER.raw_decode(text, begin.end() if begin else position)
        except (ValueError, RecursionError):
            break
        if (call := as_call(value)) is None:
            break
        found.append(call)
        after = AFTER.match(text, end)
        position = after.end() if after else end
        if text[:position].endswith(CLOSE):
            return found, position
    if found:
        return found, position
    ends = [index for index in (text.find(CLOSE, start), text.find(OPEN, start)) if index >= 0]
    end = min(ends, default=len(text))
    call = as_call(read_object(text[start:end], cut_off=False))
    closed = end + len(CLOSE) if text.startswith(CLOSE, end) else end
    return ([call] if call else []), closed


def bare_call(text: str) -> dict[str, Any] | None:
    """Return the call that makes up the whole text without tags; None for prose that merely contains an object."""
    stripped = FENCE.sub("", text.strip()).strip()
    if not stripped.startswith(("{", "｛")) or not stripped.endswith(("}", "｝")):
        return None
    value = read_object(stripped, cut_off=False)
    return as_call(value) if value and ("arguments" in value or "parameters" in value) else None


def as_call(value: object) -> dict[str, Any] | None:
    """Return ``{"name", "arguments"}`` from an object with ``name`` and ``arguments`` or ``parameters``; else None."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"].strip():
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = read_object(arguments, cut_off=False) if arguments.strip() else {}
    return {"name": value["name"].strip(), "arguments": arguments} if isinstance(arguments, dict) else None


def number_call(call: Mapping[str, Any], position: int) -> ToolCall:
    """Return the call with an id that depends only on its position and content, so that replays agree."""
    encoded = json.dumps(call["arguments"], ensure_ascii=False)
    return ToolCall(f"call_{position}_{sha256(encoded.encode())[:8]}", call["name"], encoded)


def format_tool_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Format a call as a model writes it."""
    body = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"{OPEN}\n{body}\n{CLOSE}"
