"""The answer as Markdown in the question's language: what was computed, what tables say, and quotations.

The planner adds what is missing and which sentences do not hold, as to the answer of any model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.domain.chat.conversation import Conversation
from fathom.domain.profile.kinds import Kind
from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.domain.tool_results import Sheet, list_columns, list_shown_rows
from fathom.services.policy.reference.wording import cite, join, say

# Of the tables that an answer places beside a calculation more are in the cell's list of inputs.
MOST_CLOSEST, MOST_TABLES = 3, 3
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")


def compose(
    conversation: Conversation,
    sheets: Sequence[Sheet],
    quotes: Sequence[str],
    computed: Sequence[str] = (),
    *,
    placed: Sequence[Sheet] | None = None,
    is_converted: bool = False,
) -> str:
    """Return the answer; each paragraph with figures cites them.

    ``computed`` are paragraphs on what was computed of the tables; ``placed`` are then shown without words in place of
    those, as what was computed. ``is_converted`` says that the tables are in a currency or unit of the user's memory.
    """
    is_zh = conversation.is_zh
    if is_small_talk(conversation.question):
        return say("greeting", is_zh)
    # Several queries may give the same table, which is shown once.
    distinct = {str(sheet.get("title", "")): sheet for sheet in reversed(sheets if placed is None else placed)}
    shown = [*distinct.values()][::-1]
    if computed:
        body = [*computed, *place_tables(shown[:MOST_TABLES])]
    else:
        body = [text for one in shown for text in (write_sheet(one, conversation), *place_tables([one]))]
    body += [*place_charts(conversation), *quotes]
    preferred = [line.value for line in conversation.memory if line.kind in (Kind.CURRENCY, Kind.UNITS)]
    used = [say("memory", is_zh, value) for value in preferred if is_converted]
    return "\n\n".join([*(body or write_nothing(conversation)), *write_date(sheets, is_zh), *used])


def place_tables(sheets: Sequence[Sheet]) -> list[str]:
    """Return the references that place tables."""
    return [f"{{{{table:{sheet['variable']}}}}}" for sheet in sheets]


def place_charts(conversation: Conversation) -> list[str]:
    """Return the references that place the charts of a conversation."""
    return [f"{{{{figure:{name}}}}}" for name in conversation.charts]


def write_sheet(sheet: Sheet, conversation: Conversation) -> str:
    """Return the title of a table with the values of its ends."""
    said = join(write_ends(sheet, "\n\n".join(step.body for step in conversation.of("data"))), conversation.is_zh)
    return ": ".join(filter(None, (str(sheet.get("title", "")), said))) + cite(sheet.get("material"))


def write_ends(sheet: Sheet, body: str) -> list[str]:
    """Return the values of the first and the last row that the data tool shows in words, with unit and date.

    Where there are several columns a value has the name of its own.
    """
    rows, columns, said = list_shown_rows(sheet, body), list_columns(sheet), list[str]()
    for row in [*rows[:1], *rows[1:][-1:]]:
        days = " – ".join(row[name] for name in ("date", "from", "to") if name in row)
        for column in columns:
            name, text = str(column["name"]), row[str(column["name"])]
            value = write_value(text, str(column.get("unit", "")).partition(" (")[0]) if NUMBER.fullmatch(text) else ""
            said += [f"{f'{name}: ' if len(columns) > 1 else ''}{value} ({days})"] if value else []
    return said


def write_value(text: str, unit: str) -> str:
    """Return a number as a reader writes it, with its unit: a fraction in per cent."""
    if unit == "fraction":
        return f"{100 * float(text):.2f}%"
    # "2017=100" is the base of an index and no unit of its values.
    shown = unit if unit.startswith("%") else f" {unit}" if unit and "=" not in unit else ""
    return f"{float(text):,.6g}{shown}"


def write_nothing(conversation: Conversation) -> Iterator[str]:
    """Yield that nothing was found, and the series that the catalogue holds for closest."""
    is_zh = conversation.is_zh
    yield say("nothing", is_zh)
    for step in conversation.of("catalogue"):
        rows = [line.split(" | ") for line in step.body.splitlines()[1:] if step.is_ok]
        if names := [row[2] for row in rows if len(row) > 5][:MOST_CLOSEST]:
            yield say("closest", is_zh, join(names, is_zh) + cite(step.material))


def write_date(sheets: Sequence[Sheet], is_zh: bool) -> Iterator[str]:
    """Yield as of when the figures are."""
    dated = [(str(one["as_of"]), sheet) for sheet in sheets for one in list_columns(sheet) if one.get("as_of")]
    if dated:
        cited = "".join(dict.fromkeys(cite(sheet.get("material")).strip() for _, sheet in dated))
        yield say("dated", is_zh, join(sorted({day for day, _ in dated}), is_zh), cited)


def state_open(arguments: Mapping[str, Any], question: str) -> str:
    """Return the answer of a ``finish`` call behind what it leaves open, for a reader to whom nobody else says that."""
    left = [str(text) for text in arguments.get("reading", {}).get("open", ())]
    text, is_zh = str(arguments["answer"]), is_chinese(question)
    return f"{say('open', is_zh, join(left, is_zh))}\n\n{text}" if left else text
