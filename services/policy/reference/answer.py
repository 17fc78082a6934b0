"""The answer as Markdown in the question's language: what was computed, what tables say, quotations, what is open."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.services.policy.reference.conversation import Conversation, is_chart
from fathom.services.policy.reference.documents import Quote
from fathom.services.policy.reference.preferences import list_used
from fathom.services.policy.reference.reading import NOT_UNDERSTOOD, Reading, say
from fathom.services.policy.reference.tables import Sheet, list_columns, list_rows, write_row

# A question over twenty years may lack twenty periods; the first ones show which.
MAX_LISTED, MOST_CLOSEST = 6, 3
# Tables that an answer places beside a calculation: more are in the cell's list of inputs.
MOST_TABLES = 3
FAILED = ("failed", "invalid", "refused")
FINDING = re.compile(r"""^- [a-z ]+: ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): .+$""", re.MULTILINE)
# Up to a full stop that is followed by a blank or the end, so that "3.5" ends no sentence.
SENTENCE = re.compile(r"[^.!?。！？]*(?:[.!?](?!\s|$)[^.!?。！？]*)*(?:[.!?。！？]|$)[ \t]*")


def cite(item: Mapping[str, Any] | int) -> str:
    """Return the citation of a material; "" for none."""
    number = item if isinstance(item, int) else item.get("material", 0)
    return f" [{number}]" if isinstance(number, int) and number else ""


def join(parts: Iterable[str], is_zh: bool) -> str:
    """Return distinct texts as one."""
    return ("；" if is_zh else "; ").join(dict.fromkeys(parts))


@dataclass(frozen=True)
class Findings:
    """All that an answer is made of."""

    conversation: Conversation
    reading: Reading
    sheets: Sequence[Sheet]
    quotes: Sequence[Quote]
    computed: Sequence[str] = ()
    """Paragraphs on what was computed; the tables are then shown without words."""
    is_converted: bool = False
    """True where the tables are in a currency or unit that the user's memory says."""

    @property
    def is_zh(self) -> bool:
        """Return whether the answer is to be in Chinese."""
        return self.conversation.is_zh


def compose(found: Findings) -> str:
    """Return the answer; each paragraph with figures cites them."""
    asked, is_zh = found.conversation, found.is_zh
    if is_small_talk(asked.question):
        return say("greeting", is_zh)
    body = [*found.computed, *write_sheets(found)]
    drawn = [step for step in asked.of("python") if step.is_ok and is_chart(step)]
    body += [f"{{{{figure:{figure}}}}}" for step in drawn for figure in step.head.get("figures", ())]
    body += [say("quote", is_zh, quote.title, quote.text, cite(quote.material).strip()) for quote in found.quotes]
    used = list_used(asked.question, asked.memory, is_zh, is_converted=found.is_converted)
    return "\n\n".join([*(body or write_nothing(found)), *write_ending(found), *used])


def state_open(arguments: Mapping[str, Any], question: str) -> str:
    """Return the answer of a ``finish`` call behind what it leaves open, for a reader to whom nobody else says that."""
    left = [str(text) for text in arguments.get("reading", {}).get("open", ())]
    text, is_zh = str(arguments["answer"]), is_chinese(question)
    return f"{say('open', is_zh, join(left, is_zh))}\n\n{text}" if left else text


def write_nothing(found: Findings) -> Iterator[str]:
    """Yield what of the question was not understood, and the three series that the catalogue holds for closest."""
    words = [f"“{item['subject']}”{cite(item)}" for item in found.reading.not_understood]
    words += [f"“{word}”" for word in found.reading.texts("unknown") if not any(word in text for text in words)]
    yield say("unanswered", found.is_zh, join(words, found.is_zh)) if words else say("nothing", found.is_zh)
    for step in found.conversation.of("catalogue"):
        rows = [line.split(" | ") for line in step.body.splitlines()[1:] if step.is_ok]
        if names := [row[2] for row in rows if len(row) > 5][:MOST_CLOSEST]:
            yield say("closest", found.is_zh, join(names, found.is_zh) + cite(step.material))


def write_sheets(found: Findings) -> Iterator[str]:
    """Yield each table, and if nothing was computed its title with its values in words."""
    if found.computed:
        yield from (f"{{{{table:{sheet['variable']}}}}}" for sheet in found.sheets[:MOST_TABLES])
        return
    bodies = "\n\n".join(step.body for step in found.conversation.of("data"))
    # Several queries may give the same table, which is shown once.
    for sheet in {str(sheet.get("title", "")): sheet for sheet in reversed(found.sheets)}.values():
        rows = list_rows(bodies, sheet)
        said = [text for row in rows for text in write_row(row, sheet, found.reading.names)]
        title = f"{sheet.get('title', '')}{cite(sheet)}"
        yield f"{title}: {join(said, found.is_zh)}{cite(sheet)}" if said else title
        yield f"{{{{table:{sheet['variable']}}}}}"


def write_ending(found: Findings) -> Iterator[str]:
    """Yield what is missing, what failed, and as of when the figures are."""
    steps, replies, is_zh = found.conversation.steps, found.conversation.of("data"), found.is_zh
    missing = [item for step in replies for item in step.head.get("missing", ())] or found.reading.missing
    lines: dict[str, str] = {}
    for item in missing:
        # A question of which nothing was found need not be said again.
        subject = str(item.get("subject", "")).replace(found.conversation.question, "").strip()
        subject = " ".join(filter(None, (subject, str(item.get("period", "")))))
        detail = item.get("detail") or item.get("reason")
        # Words that were not understood stay open.
        if item.get("reason") != NOT_UNDERSTOOD:
            lines.setdefault(f"{subject} ({detail})" if subject else str(detail), cite(item))
    if lines:
        yield say("missing", is_zh, join([text + cited for text, cited in lines.items()][:MAX_LISTED], is_zh))
    # A draft that came back is no failure, and without a chart nothing is wrong.
    tried = [step for step in steps if step.tool != "finish" and not is_chart(step)]
    errors = [str(step.head.get("error", "")) for step in tried if step.head.get("status") in FAILED]
    if errors:
        yield say("failed", is_zh, join([*dict.fromkeys(errors)][:2], is_zh))
    sheets = [sheet for step in replies for sheet in step.head.get("sheets", ())]
    dated = [(str(one["as_of"]), cite(sheet)) for sheet in sheets for one in list_columns(sheet) if one.get("as_of")]
    if dated:
        cited = "".join(dict.fromkeys(cited.strip() for _, cited in dated))
        yield say("dated", is_zh, join(sorted({day for day, _ in dated}), is_zh), cited)
    elif found.reading.entities:
        yield say("caveat", is_zh)


def mend(conversation: Conversation) -> tuple[str, bool] | None:
    """Return the draft that the planner gave back, without the sentences that do not hold, and whether it had some.

    Returns None when no draft came back. One that came back because parts of the question stay open is given again: all
    that this policy can look for was looked for.
    """
    last = conversation.steps[-1] if conversation.steps else None
    if last is None or last.tool != "finish" or last.head.get("status") not in ("invalid", "open"):
        return None
    draft = str(last.arguments.get("answer", ""))
    # literal_eval undoes repr() and runs no code.
    wrong = [str(ast.literal_eval(text)) for text in FINDING.findall(last.body)]
    lines = [[part for part in SENTENCE.findall(line) if part] for line in draft.split("\n")]
    left = [[part for part in line if not any(text in part for text in wrong)] for line in lines]
    if left == lines:
        return (draft, False) if draft else None
    return re.sub(r"\n{3,}", "\n\n", "\n".join(map("".join, left))).strip(), True
