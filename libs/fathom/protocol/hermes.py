"""Hermes-style tool calls: JSON objects between ``<tool_call>`` tags, read with tolerance."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fathom.ids import sha256
from fathom.protocol.messages import ToolCall

# A missing closing tag ends at the next call or at the end of the text.
CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
FENCE = re.compile(r"^```[a-zA-Z]*\s*|\s*```$")
TRAILING_COMMA = re.compile(r",(\s*[}\]])")
FULL_WIDTH = str.maketrans({"：": ":", "，": ",", "｛": "{", "｝": "}", "［": "[", "］": "]", "“": '"', "”": '"'})


def parse_tool_calls(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Splits ``text`` into its prose and its tool calls; what cannot be read as a call stays prose."""
    calls: list[ToolCall] = []

    def take(match: re.Match[str]) -> str:
        call = read_call(match.group(1), len(calls))
        if call is None:
            return match.group(0)
        calls.append(call)
        return ""

    prose = CALL.sub(take, text)
    if not calls and (whole := read_call(prose, 0)) is not None:
        # A bare or fenced object with name and arguments, without the tags.
        return "", (whole,)
    return prose.strip(), tuple(calls)


def read_call(text: str, position: int) -> ToolCall | None:
    """One call out of a JSON object with ``name`` and ``arguments`` (or ``parameters``); None when it is none."""
    parsed = read_object(text)
    if parsed is None or not isinstance(parsed.get("name"), str):
        return None
    arguments = parsed.get("arguments", parsed.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = read_object(arguments) or {}
    if not isinstance(arguments, dict):
        return None
    encoded = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(f"call_{position}_{sha256(encoded.encode())[:8]}", parsed["name"], encoded)


def read_object(text: str) -> dict[str, Any] | None:
    """A JSON object in ``text``, mended where models err: fences, prose around, trailing commas, full-width signs."""
    stripped = FENCE.sub("", text.strip())
    start, end = stripped.find("{"), stripped.rfind("}")
    for candidate in (stripped, stripped[start : end + 1], stripped[start : end + 1].translate(FULL_WIDTH)):
        for mended in (candidate, TRAILING_COMMA.sub(r"\1", candidate)):
            try:
                parsed = json.loads(mended, strict=False)
            except ValueError:
                continue
            if isinstance(parsed, dict):
                return parsed
    return None


def format_tool_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a model writes it."""
    body = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"
