"""Intent of a call: the model's own words, or a description derived from the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import ToolCall
from fathom.services.planner.tools.arguments import read_arguments, unwrap_inner

# One line in the reader's list of steps.
MAX_CHARS = 200
# The argument that says most about a call, by tool; other tools show their first text.
TELLING = {
    "search": ("Search: {}", "query"),
    "fetch": ("Read {}", "id"),
    "catalogue": ("Look up which data there are: {}", "query"),
    "data": ("Get data: {}", "question"),
    "sql": ("Query the tables: {}", "query"),
    "python": ("Run code: {}", "code"),
    "think": ("Think: {}", "content"),
    "todo": ("Todo list: {}", "action"),
    "finish": ("Give the answer", "answer"),
}


def describe_intent(call: ToolCall) -> str:
    """Return the intent on one line, never empty."""
    try:
        arguments: Mapping[str, Any] = read_arguments(call)
    except InvalidField:
        # A malformed call is reported by the registry; here it only needs a line for the reader.
        return f"Call {call.name}"
    given = arguments.get("intent") or unwrap_inner(arguments).get("intent")
    if isinstance(given, str) and given.strip():
        return shorten_line(given)
    form, name = TELLING.get(call.name, (f"Call {call.name}: {{}}", ""))
    text = find_telling_text(arguments, name) or find_telling_text(unwrap_inner(arguments), name)
    return shorten_line(form.format(text)) if text else f"Call {call.name}"


def find_telling_text(arguments: Mapping[str, Any], name: str) -> str:
    """Return the named text argument, or the first text there is; lists of texts are joined."""
    values = [arguments[name]] if name in arguments else [v for k, v in arguments.items() if k != "intent"]
    for value in values:
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(text, str) and text.strip():
            return text
    return ""


def shorten_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…"
