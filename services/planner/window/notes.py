"""Notes on steps removed from the view, formatted as a tool result.

They appear as a call of ``recall`` and its result rather than as a user message, so that text of documents remains
marked as material.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.protocol.hermes import format_tool_call
from fathom.protocol.messages import Message, Role, ToolCall
from services.planner.model import Episode, Kind, Material, Step, ToolResult, ToolState
from services.planner.todo import Todo
from services.planner.tools.tool import Reply, shortened
from services.planner.window.quantities import canonical, numbers
from services.planner.window.record import Shown, result_id

QUESTION_CHARS, SAID_CHARS = 400, 300
IN_A_TABLE = "data"


@dataclass(frozen=True)
class Told:
    """Original content of a removed step: the model's text and calls, then the messages it received."""

    step: Step
    said: str
    given: tuple[tuple[str, str, ToolResult | None], ...]
    """Id, text and result; a message of the planner or the user has neither id nor result."""

    @property
    def text(self) -> str:
        return "\n".join([self.said, *(text for _, text, _ in self.given)])


def told(episode: Episode, new: Sequence[Message], steps: Iterable[int]) -> list[Told]:
    """Return the original content of some steps."""
    following = [*(step.new_messages for step in episode.steps[1:]), tuple(new)]
    found = []
    for index in sorted(steps):
        step = episode.steps[index]
        results, given = iter(enumerate(step.results)), []
        for message in following[index]:
            position, result = (next(results, (0, None))) if message.role is Role.TOOL else (0, None)
            given.append(("" if result is None else result_id(index, position), message.content, result))
        calls = [f"{call.name} {call.arguments_json}" for call in step.completion.tool_calls]
        said = "\n".join(calls) or step.completion.text
        found.append(Told(step, said, tuple(given)))
    return found


def as_messages(text: str) -> tuple[Shown, Shown]:
    """Return notes as a tool call and its result."""
    arguments = {"intent": "See the notes on the rounds that are no longer shown", "round": 1}
    call = ToolCall("notes", "recall", json.dumps(arguments))
    reply = Reply(ToolState.OK, {"notes": "on rounds that are no longer shown"}, text).content("recall")
    return (
        Shown(-1, Message(Role.ASSISTANT, format_tool_call("recall", arguments), (call,))),
        Shown(-1, Message(Role.TOOL, reply, tool_call_id=call.id)),
    )


def facts(episode: Episode, gone: Sequence[Told], stay: Collection[int]) -> str:
    """Return the facts that survive every cut: question, plan, sheets with columns, material, gaps, recallable rounds.

    ``stay`` are the steps still shown; the successful material of all others is listed.
    """
    results = [result for step in episode.steps if step.index not in stay for result in step.results]
    material = [
        item
        for result in results
        for item in result.material
        if result.status is ToolState.OK or item.kind is Kind.MISSING
    ]
    parts = (
        ("Question", [shortened(episode.task.question, QUESTION_CHARS)]),
        ("Plan", plan(episode)),
        ("Sheets in Python", [sheet(item) for item in by_variable(episode)]),
        ("Material to cite", [cited(item) for item in material if item.kind in (Kind.PASSAGE, Kind.CODE)]),
        ("Missing", [gap(item) for item in material if item.kind is Kind.MISSING]),
        ("Said meanwhile", [shortened(text, SAID_CHARS) for text in words(gone)]),
        ("Rounds left out, for recall", [left_out(part, result) for part, result in kept(gone)]),
    )
    return "\n\n".join(f"## {title}\n" + "\n".join(lines) for title, lines in parts if lines)


def kept(gone: Sequence[Told]) -> list[tuple[Told, ToolResult]]:
    """Return the successful and empty results of removed steps."""
    good = (ToolState.OK, ToolState.EMPTY)
    return [(part, result) for part in gone for _, _, result in part.given if result and result.status in good]


def left_out(part: Told, result: ToolResult) -> str:
    return f"- round {part.step.index + 1}, {result.call.name}: {shortened(result.intent, SAID_CHARS)}"


def plan(episode: Episode) -> list[str]:
    """Return the current todo list, one line per item."""
    return [f"{item['n']}. [{item['state']}] {item['text']}" for item in Todo.rebuilt(episode.steps).listed()]


def words(gone: Sequence[Told]) -> list[str]:
    """Return the messages of the planner or the user between the steps."""
    return list(dict.fromkeys(f"- {text}" for part in gone for id, text, _ in part.given if not id))


def by_variable(episode: Episode) -> list[Material]:
    """Return the sheets held by Python, each once."""
    sheets = [item for item in episode.material if item.kind is Kind.SHEET]
    return list({item.variable: item for item in reversed(sheets)}.values())[::-1]


def sheet(item: Material) -> str:
    """Return a sheet's variable, number, title, size and columns with type and unit."""
    columns = ", ".join(
        " ".join(part for part in (f"{column.name}: {column.type}", column.unit) if part)
        for column in field(item.item, "columns", ())
    )
    title = field(item.item, "title", "")
    return f"- {item.variable} [{item.number}] {title}, {field(item.item, 'rows', 0):,} rows; columns {columns}"


def cited(item: Material) -> str:
    """Return a passage or a cell on one line, with the number that cites it."""
    if item.kind is Kind.PASSAGE:
        return f"- [{item.number}] {field(item.item, 'id', '')}: {shortened(field(item.item, 'title', ''), SAID_CHARS)}"
    figures = ", ".join(f"{{{{figure:{figure.id}}}}}" for figure in field(item.item, "figures", ()))
    return f"- [{item.number}] code {figures}".rstrip()


def gap(item: Material) -> str:
    subject, detail = field(item.item, "subject", ""), field(item.item, "detail", "")
    return f"- [{item.number}] {subject}: {detail}".rstrip(": ")


def field(item: Any, name: str, default: Any) -> Any:
    """Return a field of a material's item, which is a message or, in a resumed run, a mapping."""
    return item.get(name, default) if isinstance(item, dict) else getattr(item, name, default)


def extract(gone: Sequence[Told], chars: int) -> str:
    """Return the lines of each result that contain numbers, at most ``chars`` characters per result.

    Used when no writer is available.
    """
    parts = []
    for part in gone:
        for _, text, result in part.given:
            if result is None or result.status not in (ToolState.OK, ToolState.EMPTY):
                continue
            lines = [line.strip() for line in text.splitlines()[1:] if numbers(line)]
            if lines:
                parts.append(
                    f"### round {part.step.index + 1}: {result.intent}\n{shortened(chr(10).join(lines), chars)}"
                )
    return "\n".join(parts)


def with_numbers(text: str, gone: Sequence[Told], *, tables: bool) -> tuple[str, int]:
    """Append all numbers of removed steps that the text lacks, by round; return the text and how many were left out.

    Without ``tables``, numbers of table previews may be left out, because Python holds the whole tables.
    """
    lines: list[str] = []
    known = {canonical(number) for number in numbers(text)}
    left = 0
    for part in gone:
        texts = [("", part.said, None), *part.given]
        for _, words_given, result in texts:
            lacking = [number for number in numbers(words_given) if canonical(number) not in known]
            if lacking and not tables and result is not None and result.call.name == IN_A_TABLE:
                left += len(lacking)
            elif lacking:
                known.update(canonical(number) for number in lacking)
                lines.append(f"- round {part.step.index + 1}: {' '.join(lacking)}")
    return (f"{text}\n\n## Other numbers, by round\n" + "\n".join(lines) if lines else text), left
