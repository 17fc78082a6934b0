"""Intent of a call: the model's own words, or a description derived from the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.errors import InvalidField
from fathom.protocol.messages import ToolCall
from services.planner.tools.arguments import inner, read_arguments

MAX_CHARS = 200
# The argument that says most about a call, by tool; other tools show their first text.
TELLING = {
    "search": ("Search: {}", "query"),
    "fetch": ("Read {}", "id"),
    "data": ("Get data: {}", "question"),
    "python": ("Run code: {}", "code"),
    "think": ("Think: {}", "content"),
    "todo": ("Todo list: {}", "action"),
    "finish": ("Give the answer", "answer"),
}


def intent_of(call: ToolCall) -> str:
    """Return the intent on one line, never empty."""
    try:
        arguments: Mapping[str, Any] = read_arguments(call)
    except InvalidField:
        return f"Call {call.name}"
    given = arguments.get("intent") or inner(arguments).get("intent")
    if isinstance(given, str) and given.strip():
        return one_line(given)
    form, name = TELLING.get(call.name, (f"Call {call.name}: {{}}", ""))
    text = telling(arguments, name) or telling(inner(arguments), name)
    return one_line(form.format(text)) if text else f"Call {call.name}"


def telling(arguments: Mapping[str, Any], name: str) -> str:
    """Return the named text argument, or the first text there is; lists of texts are joined."""
    values = [arguments[name]] if name in arguments else [v for k, v in arguments.items() if k != "intent"]
    for value in values:
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(text, str) and text.strip():
            return text
    return ""


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…"
