"""Routing checks of sub-questions: numbers belong to the data tool, news and interpretation to the search tool."""

from __future__ import annotations

import unicodedata

from fathom.services.planner.model.stages import Fault, SubQuery

DATA, SEARCH = "data", "search"


def find_fault(query: SubQuery, suited: str) -> Fault | None:
    """Return the routing fault of a sub-question, or None.

    ``suited`` is the tool that the classifier is sure of, "" when it is unsure: then the model's choice stays.
    """
    if query.tool == DATA and suited == SEARCH and not query.indicators:
        return Fault.NO_INDICATOR
    if query.tool == SEARCH and suited == DATA:
        return Fault.BARE_INDICATOR
    return None


def reroute(query: SubQuery, fault: Fault | None) -> SubQuery:
    """Return the sub-question with the tool that suits it."""
    if fault is Fault.NO_INDICATOR:
        return SubQuery(SEARCH, query.text, query.origin, query.indicators)
    if fault is Fault.BARE_INDICATOR:
        return SubQuery(DATA, query.text, query.origin, query.indicators)
    return query


def make_query_key(query: SubQuery) -> tuple[str, str]:
    """Return a key that is equal for sub-questions that differ in case, width, punctuation or spaces only."""
    folded = unicodedata.normalize("NFKC", query.text).casefold()
    return query.tool, "".join(character for character in folded if character.isalnum())
