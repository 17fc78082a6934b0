"""From what a model asked for to what is sent: names of the library, the right tool, one period each, no repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from services.planner.workflow.lint import DATA, SEARCH, fault_of, routed, same_key
from services.planner.workflow.periods import split_periods
from services.planner.workflow.record import Fault, Flaw, Meant, SubQuery

MAX_SENT = 16
"""Sub-questions of one round of collection."""
EDGES = " ,，、;；:：。.-和与及"
DANGLING = re.compile(r"(?:[,，、;；]\s*){2,}|\s{2,}")


@dataclass(frozen=True)
class Planned:
    """Sub-questions in order, those that are not sent with their reason, and what was wrong."""

    queries: tuple[SubQuery, ...]
    flaws: tuple[Flaw, ...]


def planned(
    queries: Sequence[SubQuery],
    asked: Sequence[SubQuery],
    meant: Meant,
    tools: Sequence[str],
    today: date,
) -> Planned:
    """``asked`` were sent before; ``tools`` are those that there are: a fault is mended only towards one of them."""
    flaws: list[Flaw] = []
    spread: list[SubQuery] = []
    for query in queries:
        named = of_the_library(query, meant, flaws)
        fault = fault_of(named, meant.inside.get(query.text, ()))
        mended = routed(named, fault)
        if fault is not None:
            flaws.append(Flaw(fault, query.text))
        if mended.tool not in tools:
            mended = named
        if fault is Fault.BARE_INDICATOR and same_key(mended) in {same_key(known) for known in asked}:
            mended = named  # the data tool has nothing: then documents may say it
        texts = split_periods(mended.text, today) if mended.tool == SEARCH else [mended.text]
        spread += [replace(mended, text=text) for text in texts]
    return Planned(unrepeated(spread, asked, flaws), tuple(flaws))


def of_the_library(query: SubQuery, meant: Meant, flaws: list[Flaw]) -> SubQuery:
    """A data sub-question with the library's names for its indicators; names that are none are taken out (row W10)."""
    if query.tool != DATA or not query.indicators:
        return query
    text, kept = query.text, []
    for name in query.indicators:
        if name not in meant.known:  # the part is off, or the library is out of reach
            continue
        called = meant.canonical.get(name, name) if meant.known[name] else ""
        if called != name:
            text = re.sub(re.escape(name), called or " ", text, flags=re.IGNORECASE)
        if called:
            kept.append(called)
        else:
            flaws.append(Flaw(Fault.UNKNOWN_INDICATOR, name))
    text = DANGLING.sub(lambda found: found.group()[0] + (" " if found.group()[0] == "," else ""), text).strip(EDGES)
    lacking = [name for name in dict.fromkeys(kept) if name.casefold() not in text.casefold()]
    if lacking:
        text = f"{text}: {', '.join(lacking)}" if text else ", ".join(lacking)
    return replace(query, text=text or query.text, indicators=tuple(dict.fromkeys(kept)))


def unrepeated(queries: Sequence[SubQuery], asked: Sequence[SubQuery], flaws: list[Flaw]) -> tuple[SubQuery, ...]:
    """The sub-questions, repeats and what is beyond ``MAX_SENT`` marked as not sent (rows W19, W20)."""
    known = {same_key(query) for query in asked}
    out: list[SubQuery] = []
    sent = 0
    for query in queries:
        fault = None
        if same_key(query) in known:
            fault = Fault.DUPLICATE
        elif sent >= MAX_SENT:
            fault = Fault.TOO_MANY
        if fault is not None:
            flaws.append(Flaw(fault, f"{query.tool}: {query.text}"))
        sent += fault is None
        known.add(same_key(query))
        out.append(replace(query, dropped=fault))
    return tuple(out)


def fallback_plan(question: str, tools: Sequence[str]) -> list[SubQuery]:
    """The question itself for each of the two tools: what is left when a plan is of no use."""
    return [SubQuery(tool, question, "fallback") for tool in (DATA, SEARCH) if tool in tools]


def fallback_reflection(asked: Sequence[SubQuery], found: Sequence[bool], tools: Sequence[str]) -> list[SubQuery]:
    """What found nothing, once more with the other tool (row W16)."""
    other = {DATA: SEARCH, SEARCH: DATA}
    return [
        SubQuery(other[query.tool], query.text, "fallback")
        for query, ok in zip(asked, found, strict=True)
        if not ok and query.tool in other and other[query.tool] in tools
    ]
