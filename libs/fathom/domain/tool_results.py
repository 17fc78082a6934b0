"""Results of tools as they stand in a conversation: a line of JSON for programs, and the quoted text below it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.domain.chat.quoting import unquote

UNREADABLE = "the result is not in the agreed form"
# A table as a head describes it: variable, title and columns.
Sheet = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """A call and its result: ``head`` is the result's JSON line, ``body`` the text below it."""

    tool: str
    arguments: Mapping[str, Any]
    head: Mapping[str, Any]
    body: str

    @property
    def is_ok(self) -> bool:
        return self.head.get("status") == "ok"

    @property
    def is_chart(self) -> bool:
        """Return whether it is a cell that was to draw a chart of the finance library."""
        return self.tool == "python" and str(self.arguments.get("code", "")).startswith("finance.chart")

    @property
    def sheets(self) -> list[Sheet]:
        """Return the tables that a call has brought; none of one that failed."""
        return list(self.head.get("sheets", ())) if self.is_ok else []

    @property
    def material(self) -> int:
        """Return the number to cite; 0 for none."""
        number = self.head.get("material", 0)
        return number if isinstance(number, int) else 0


def read_steps(messages: Sequence[Message]) -> Iterator[Step]:
    """Yield the calls of a conversation with their results, in the order of the results."""
    calls: dict[str, ToolCall] = {}
    unanswered: list[ToolCall] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            unanswered = list(message.tool_calls or parse_tool_calls(message.content)[1])
            calls.update((call.id, call) for call in unanswered)
        elif message.role is Role.TOOL:
            # Endpoints without call ids give the results in the order of the calls.
            call = calls.get(message.tool_call_id) or (unanswered[0] if unanswered else None)
            if call in unanswered:
                unanswered.remove(call)
            yield make_step(call, message.content)


def make_step(call: ToolCall | None, content: str) -> Step:
    """Return a call with its result; a result in an unexpected form counts as failed."""
    first, _, body = content.partition("\n")
    head = parse_object(first)
    if head is None:
        head, body = {"status": "failed", "error": UNREADABLE}, content
    tool = call.name if call else str(head.get("tool", ""))
    arguments = parse_object(call.arguments_json) if call else None
    return Step(tool, arguments or {}, head, unquote(body).strip())


def list_objects(body: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a text that are JSON objects."""
    found = (parse_object(line.strip()) for line in body.splitlines() if line.lstrip().startswith("{"))
    yield from (one for one in found if one is not None)


def parse_object(text: str) -> dict[str, Any] | None:
    """Return a JSON object; None for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def list_columns(sheet: Sheet) -> list[Mapping[str, Any]]:
    """Return the columns of a table that hold values."""
    columns = sheet.get("columns", ())
    return [column for column in columns if not str(column.get("type", "")).startswith(("time", "date", "string"))]


def is_dated(sheet: Sheet) -> bool:
    """Return whether a table has a date in the first column of each row."""
    columns = sheet.get("columns", ())
    return bool(columns) and str(columns[0].get("type", "")).startswith(("time", "date"))


def list_shown_rows(sheet: Sheet, body: str) -> list[dict[str, str]]:
    """Return the rows of a table that the data tool shows in the text of its result, the cells by column."""
    names = [str(column["name"]) for column in sheet["columns"]]
    shown = body.partition(f"{sheet['variable']}: ")[2].partition("\ncolumn | dtype")[0]
    cells = [line.split()[1:] for line in shown.splitlines()[1:] if line[:1].isdigit()]
    return [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]
