"""The answer as Markdown in the question's language: what was computed, what tables say, and quotations.

The planner adds what is missing and which sentences do not hold, as to the answer of any model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fathom.domain.profile.kinds import Kind
from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.services.policy.reference.conversation import Conversation, is_chart
from fathom.services.policy.reference.reading import Sheet, list_columns, say

# Of the tables that an answer places beside a calculation more are in the cell's list of inputs.
MOST_CLOSEST, MOST_TABLES = 3, 3
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")
CITATIONS = re.compile(r"(?:\s*\[\d+\])+")


def cite(item: Mapping[str, Any] | int) -> str:
    """Return the citation of a material; "" for none."""
    number = item if isinstance(item, int) else item.get("material", 0)
    return f" [{number}]" if isinstance(number, int) and number else ""


def join(parts: Iterable[str], is_zh: bool) -> str:
    """Return distinct texts as one."""
    return ("；" if is_zh else "; ").join(dict.fromkeys(parts))


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
    body = list(computed)
    # Several queries may give the same table, which is shown once.
    distinct = {str(sheet.get("title", "")): sheet for sheet in reversed(sheets if placed is None else placed)}
    for sheet in [*distinct.values()][::-1][: MOST_TABLES if computed else None]:
        body += [*([] if computed else [write_sheet(sheet, conversation)]), f"{{{{table:{sheet['variable']}}}}}"]
    drawn = [step for step in conversation.of("python") if step.is_ok and is_chart(step)]
    body += [f"{{{{figure:{figure}}}}}" for step in drawn for figure in step.head.get("figures", ())]
    body += quotes
    preferred = [line.value for line in conversation.memory if line.kind in (Kind.CURRENCY, Kind.UNITS)]
    used = [say("memory", is_zh, value) for value in preferred if is_converted]
    return "\n\n".join([*(body or write_nothing(conversation)), *write_date(sheets, is_zh), *used])


def write_sheet(sheet: Sheet, conversation: Conversation) -> str:
    """Return the title of a table with the values of its ends."""
    said = join(write_ends(sheet, "\n\n".join(step.body for step in conversation.of("data"))), conversation.is_zh)
    return ": ".join(filter(None, (str(sheet.get("title", "")), said))) + cite(sheet)


def write_ends(sheet: Sheet, body: str) -> list[str]:
    """Return the values of the first and the last row that the data tool shows in words, with unit and date.

    Where there are several columns a value has the name of its own.
    """
    names, columns = [str(column["name"]) for column in sheet["columns"]], list_columns(sheet)
    shown = body.partition(f"{sheet['variable']}: ")[2].partition("\ncolumn | dtype")[0]
    cells = [line.split()[1:] for line in shown.splitlines()[1:] if line[:1].isdigit()]
    rows = [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]
    said = []
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
    yield say("nothing", conversation.is_zh)
    for step in conversation.of("catalogue"):
        rows = [line.split(" | ") for line in step.body.splitlines()[1:] if step.is_ok]
        if names := [row[2] for row in rows if len(row) > 5][:MOST_CLOSEST]:
            yield say("closest", conversation.is_zh, join(names, conversation.is_zh) + cite(step.material))


def write_date(sheets: Sequence[Sheet], is_zh: bool) -> Iterator[str]:
    """Yield as of when the figures are."""
    dated = [(str(one["as_of"]), cite(sheet)) for sheet in sheets for one in list_columns(sheet) if one.get("as_of")]
    if dated:
        cited = "".join(dict.fromkeys(cited.strip() for _, cited in dated))
        yield say("dated", is_zh, join(sorted({day for day, _ in dated}), is_zh), cited)


def share_paragraphs(answers: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return what several answers begin with, the answers without what several say, and what they say behind that.

    Of a shared paragraph (as of when the data are, a convention) one stays, with the citations of all. A list has the
    values of its own question, and is never shared.
    """
    said: dict[str, list[str]] = {}
    split = [answer.split("\n\n") for answer in answers]
    for paragraph in (paragraph for paragraphs in split for paragraph in paragraphs):
        said.setdefault(CITATIONS.sub("", paragraph), []).append(paragraph)
    once: dict[str, str] = {}
    for key, texts in said.items():
        if len(texts) > 1 and key and not key.startswith(("- ", "{{")):
            cited = "".join(dict.fromkeys(run for text in texts for run in CITATIONS.findall(text)))
            once[key] = CITATIONS.sub(cited, texts[0])
    parts = ["\n\n".join(one for one in paragraphs if CITATIONS.sub("", one) not in once) for paragraphs in split]
    first = {CITATIONS.sub("", paragraphs[0]) for paragraphs in split}
    return [once[key] for key in once if key in first], parts, [once[key] for key in once if key not in first]


def state_open(arguments: Mapping[str, Any], question: str) -> str:
    """Return the answer of a ``finish`` call behind what it leaves open, for a reader to whom nobody else says that."""
    left = [str(text) for text in arguments.get("reading", {}).get("open", ())]
    text, is_zh = str(arguments["answer"]), is_chinese(question)
    return f"{say('open', is_zh, join(left, is_zh))}\n\n{text}" if left else text
