"""The answer as Markdown in the question's language: what was computed, what tables say, and quotations.

The planner adds what is missing and which sentences do not hold, as to the answer of any model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fathom.domain.conversation import Conversation
from fathom.domain.profile.kinds import Kind
from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.domain.tool_results import Sheet
from fathom.domain.writing import wording
from fathom.domain.writing.tables import MOST_TABLES, place_charts, place_tables, write_date, write_sheet
from fathom.domain.writing.wording import cite, join
from fathom.services.policy.reference.wording import say

MOST_CLOSEST = 3


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


def write_nothing(conversation: Conversation) -> Iterator[str]:
    """Yield that nothing was found, and the series that the catalogue holds for closest."""
    is_zh = conversation.is_zh
    yield wording.say("nothing", is_zh)
    for step in conversation.of("catalogue"):
        rows = [line.split(" | ") for line in step.body.splitlines()[1:] if step.is_ok]
        if names := [row[2] for row in rows if len(row) > 5][:MOST_CLOSEST]:
            yield say("closest", is_zh, join(names, is_zh) + cite(step.material))


def state_open(arguments: Mapping[str, Any], question: str) -> str:
    """Return the answer of a ``finish`` call behind what it leaves open, for a reader to whom nobody else says that."""
    left = [str(text) for text in arguments.get("reading", {}).get("open", ())]
    text, is_zh = str(arguments["answer"]), is_chinese(question)
    return f"{say('open', is_zh, join(left, is_zh))}\n\n{text}" if left else text
