"""Post-processing of planned sub-questions: library names, tool routing, one period each, deduplication."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from fathom.services.planner.model.stages import Fault, Flaw, LibraryLookup, SubQuery
from fathom.services.planner.workflow.periods import split_periods
from fathom.services.planner.workflow.tool_routing import DATA, SEARCH, find_fault, make_query_key, reroute

MAX_SENT = 16
"""Limit of sub-questions sent per collection round."""
EDGES = " ,，、;；:：。.-和与及"
# Separators that a removed name leaves behind, as in "revenue, , margin".
DANGLING = re.compile(r"(?:[,，、;；]\s*){2,}|\s{2,}")


@dataclass(frozen=True)
class FinalPlan:
    """Sub-questions in order, including dropped ones with their reason, and the flaws found."""

    queries: tuple[SubQuery, ...]
    flaws: tuple[Flaw, ...]


def finalise_plan(
    queries: Sequence[SubQuery],
    asked: Sequence[SubQuery],
    meant: LibraryLookup,
    tools: Sequence[str],
    today: date,
) -> FinalPlan:
    """Return the sub-questions to send.

    ``asked`` were sent before; ``tools`` are available, and a sub-question is never routed to any other tool.
    """
    flaws: list[Flaw] = []
    spread: list[SubQuery] = []
    for query in queries:
        named = canonicalise_indicators(query, meant, flaws)
        # A look-up whose indicators the library lacks, all of them, has nothing left to look up.
        is_empty = not named.indicators and any(meant.known.get(name) == "" for name in query.indicators)
        suited = meant.suited.get(query.text, "")
        if suited == SEARCH and meant.inside.get(query.text):
            suited = ""  # "unemployment from 2007 to 2009, and why" asks for a reason, but for a series too
        fault = find_fault(named, SEARCH if is_empty else suited)
        mended = reroute(named, fault)
        if fault is not None:
            flaws.append(Flaw(fault, query.text))
        # A deployment may lack one of the two tools: then the model's choice stays.
        if mended.tool not in tools:
            mended = named
        if fault is Fault.BARE_INDICATOR and make_query_key(mended) in {make_query_key(known) for known in asked}:
            mended = named  # the data tool had nothing: documents may have it
        texts = split_periods(mended.text, today) if mended.tool == SEARCH else [mended.text]
        spread += [replace(mended, text=text) for text in texts]
    return FinalPlan(drop_repeats(spread, asked, flaws), tuple(flaws))


def canonicalise_indicators(query: SubQuery, meant: LibraryLookup, flaws: list[Flaw]) -> SubQuery:
    """Replace the indicators of a data sub-question by their library names; remove unknown ones."""
    if query.tool != DATA or not query.indicators:
        return query
    text, kept = query.text, []
    for name in query.indicators:
        if name not in meant.known:  # association is disabled, or the library unreachable
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


def drop_repeats(queries: Sequence[SubQuery], asked: Sequence[SubQuery], flaws: list[Flaw]) -> tuple[SubQuery, ...]:
    """Mark repeated sub-questions and those beyond ``MAX_SENT`` as dropped."""
    known = {make_query_key(query) for query in asked}
    out: list[SubQuery] = []
    sent = 0
    for query in queries:
        fault = None
        if make_query_key(query) in known:
            fault = Fault.DUPLICATE
        elif sent >= MAX_SENT:
            fault = Fault.TOO_MANY
        if fault is not None:
            flaws.append(Flaw(fault, f"{query.tool}: {query.text}"))
        sent += fault is None
        known.add(make_query_key(query))
        out.append(replace(query, dropped=fault))
    return tuple(out)


def fallback_plan(question: str, tools: Sequence[str]) -> list[SubQuery]:
    """Return the question itself for each of the two tools, for when the plan is unusable."""
    return [SubQuery(tool, question, "fallback") for tool in (DATA, SEARCH) if tool in tools]


def fallback_reflection(asked: Sequence[SubQuery], found: Sequence[bool], tools: Sequence[str]) -> list[SubQuery]:
    """Return the sub-questions without results, each for the other tool."""
    other = {DATA: SEARCH, SEARCH: DATA}
    return [
        SubQuery(other[query.tool], query.text, "fallback")
        for query, ok in zip(asked, found, strict=True)
        if not ok and query.tool in other and other[query.tool] in tools
    ]
