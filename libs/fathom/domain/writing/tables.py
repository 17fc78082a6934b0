"""Tables and charts in an answer: references that place them, their ends in words, and as of when they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fathom.domain.conversation import Conversation
from fathom.domain.tool_results import Sheet, list_columns, list_shown_rows
from fathom.domain.writing.wording import cite, join, say

# Of the tables that an answer places beside a calculation more are in the cell's list of inputs.
MOST_TABLES = 3
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")


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


def write_date(sheets: Sequence[Sheet], is_zh: bool) -> Iterator[str]:
    """Yield as of when the figures are."""
    dated = [(str(one["as_of"]), sheet) for sheet in sheets for one in list_columns(sheet) if one.get("as_of")]
    if dated:
        cited = "".join(dict.fromkeys(cite(sheet.get("material")).strip() for _, sheet in dated))
        yield say("dated", is_zh, join(sorted({day for day, _ in dated}), is_zh), cited)
