"""Notes on steps removed from the view, formatted as a call of ``recall`` and its result."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.domain.chat.quoting import shorten
from fathom.services.planner.model.compaction import ViewMessage, result_id
from fathom.services.planner.model.episode import Episode, Material, MaterialKind, Step, ToolResult, ToolStatus
from fathom.services.planner.model.todo import Todo
from fathom.services.planner.tools.tool import Reply
from fathom.services.planner.window.quantities import canonicalise, find_numbers

# The question itself stays in the opening; here it only titles the notes.
QUESTION_CHARS, SAID_CHARS = 400, 300
IN_A_TABLE = "data"


@dataclass(frozen=True)
class RemovedStep:
    """Original content of a removed step: the model's text and calls, then the messages it received."""

    step: Step
    said: str
    given: tuple[tuple[str, str, ToolResult | None], ...]
    """Id, text and result; a message of the planner or the user has neither id nor result."""

    @property
    def text(self) -> str:
        return "\n".join([self.said, *(text for _, text, _ in self.given)])


def collect_removed(episode: Episode, new: Sequence[Message], steps: Iterable[int]) -> list[RemovedStep]:
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
        found.append(RemovedStep(step, said, tuple(given)))
    return found


def to_messages(text: str) -> tuple[ViewMessage, ViewMessage]:
    """Return notes as a tool call and its result."""
    # A tool's result and not a user message: text of documents stays quoted as material, which the model need not obey.
    arguments = {"intent": "See the notes on the rounds that are no longer shown", "round": 1}
    call = ToolCall("notes", "recall", json.dumps(arguments))
    reply = Reply(ToolStatus.OK, {"notes": "on rounds that are no longer shown"}, text).content("recall")
    return (
        ViewMessage(-1, Message(Role.ASSISTANT, format_tool_call("recall", arguments), (call,))),
        ViewMessage(-1, Message(Role.TOOL, reply, tool_call_id=call.id)),
    )


def format_facts(episode: Episode, gone: Sequence[RemovedStep], stay: Collection[int]) -> str:
    """Return the facts that survive every cut: question, plan, sheets with columns, material, gaps, recallable rounds.

    ``stay`` are the steps still shown; the successful material of all others is listed.
    """
    results = [result for step in episode.steps if step.index not in stay for result in step.results]
    material = [
        item
        for result in results
        for item in result.material
        # Material of failed calls is not worth citing, except what is missing, which the answer must name.
        if result.status is ToolStatus.OK or item.kind is MaterialKind.MISSING
    ]
    parts = (
        ("Question", [shorten(episode.task.question, QUESTION_CHARS)]),
        ("Plan", format_plan(episode)),
        ("Sheets in Python", [format_sheet(item) for item in collect_sheets(episode)]),
        (
            "Material to cite",
            [format_citation(item) for item in material if item.kind in (MaterialKind.PASSAGE, MaterialKind.CODE)],
        ),
        ("Missing", [format_missing(item) for item in material if item.kind is MaterialKind.MISSING]),
        ("Said meanwhile", [shorten(text, SAID_CHARS) for text in collect_words(gone)]),
        ("Rounds left out, for recall", [format_left_out(part, result) for part, result in select_results(gone)]),
    )
    return "\n\n".join(f"## {title}\n" + "\n".join(lines) for title, lines in parts if lines)


def select_results(gone: Sequence[RemovedStep]) -> list[tuple[RemovedStep, ToolResult]]:
    """Return the successful and empty results of removed steps."""
    good = (ToolStatus.OK, ToolStatus.EMPTY)
    return [(part, result) for part in gone for _, _, result in part.given if result and result.status in good]


def format_left_out(part: RemovedStep, result: ToolResult) -> str:
    return f"- round {part.step.index + 1}, {result.call.name}: {shorten(result.intent, SAID_CHARS)}"


def format_plan(episode: Episode) -> list[str]:
    """Return the current todo list, one line per item."""
    return [f"{item['n']}. [{item['state']}] {item['text']}" for item in Todo.from_steps(episode.steps).as_list()]


def collect_words(gone: Sequence[RemovedStep]) -> list[str]:
    """Return the messages of the planner or the user between the steps."""
    return list(dict.fromkeys(f"- {text}" for part in gone for id, text, _ in part.given if not id))


def collect_sheets(episode: Episode) -> list[Material]:
    """Return the sheets held by Python, each once."""
    sheets = [item for item in episode.material if item.kind is MaterialKind.SHEET]
    # Reversed twice: the first occurrence of a variable wins, in the order of their making.
    return list({item.variable: item for item in reversed(sheets)}.values())[::-1]


def format_sheet(item: Material) -> str:
    """Return a sheet's variable, number, title, size and columns with type and unit."""
    columns = ", ".join(
        " ".join(part for part in (f"{column.name}: {column.type}", column.unit) if part)
        for column in read_field(item.item, "columns", ())
    )
    title = read_field(item.item, "title", "")
    return f"- {item.variable} [{item.number}] {title}, {read_field(item.item, 'rows', 0):,} rows; columns {columns}"


def format_citation(item: Material) -> str:
    """Return a passage or a cell on one line, with the number that cites it."""
    if item.kind is MaterialKind.PASSAGE:
        title = shorten(read_field(item.item, "title", ""), SAID_CHARS)
        return f"- [{item.number}] {read_field(item.item, 'id', '')}: {title}"
    figures = ", ".join(f"{{{{figure:{figure.id}}}}}" for figure in read_field(item.item, "figures", ()))
    return f"- [{item.number}] code {figures}".rstrip()


def format_missing(item: Material) -> str:
    subject, detail = read_field(item.item, "subject", ""), read_field(item.item, "detail", "")
    return f"- [{item.number}] {subject}: {detail}".rstrip(": ")


def read_field(item: Any, name: str, default: Any) -> Any:
    """Return a field of a material's item, which is a message or, in a resumed run, a mapping."""
    return item.get(name, default) if isinstance(item, dict) else getattr(item, name, default)


def extract(gone: Sequence[RemovedStep], chars: int) -> str:
    """Return the lines of each result that contain numbers, at most ``chars`` characters per result.

    Used when no writer is available.
    """
    parts = []
    for part in gone:
        for _, text, result in part.given:
            if result is None or result.status not in (ToolStatus.OK, ToolStatus.EMPTY):
                continue
            # The first line is the result's JSON header, whose numbers are ids and counts.
            lines = [line.strip() for line in text.splitlines()[1:] if find_numbers(line)]
            if lines:
                parts.append(f"### round {part.step.index + 1}: {result.intent}\n{shorten(chr(10).join(lines), chars)}")
    return "\n".join(parts)


def append_numbers(text: str, gone: Sequence[RemovedStep], *, tables: bool) -> tuple[str, int]:
    """Append all numbers of removed steps that the text lacks, by round; return the text and how many were left out.

    Without ``tables``, numbers of table previews may be left out, because Python holds the whole tables.
    """
    lines: list[str] = []
    known = {canonicalise(number) for number in find_numbers(text)}
    left = 0
    for part in gone:
        texts = [("", part.said, None), *part.given]
        for _, words_given, result in texts:
            lacking = [number for number in find_numbers(words_given) if canonicalise(number) not in known]
            if lacking and not tables and result is not None and result.call.name == IN_A_TABLE:
                left += len(lacking)
            elif lacking:
                known.update(canonicalise(number) for number in lacking)
                lines.append(f"- round {part.step.index + 1}: {' '.join(lacking)}")
    return (f"{text}\n\n## Other numbers, by round\n" + "\n".join(lines) if lines else text), left
