"""Columns of quarters and of whole years of one measure, of which a question is about those of its periods."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from fathom.domain.periods.period import measure_months
from fathom.services.datafetch.parser import periods
from fathom.services.datafetch.programs.own import OwnSeries


def choose_lengths(own: Sequence[OwnSeries], questions: Sequence[str], today: date) -> list[OwnSeries]:
    """Return the columns; of those of one measure for quarters and for years, say, the ones that a question is about.

    These are of the longest periods that are no longer than the shortest one that it names, or that an earlier question
    has named, and of the shortest ones without any.
    """
    lengths: dict[tuple[str, ...], set[int]] = {}
    for one in own:
        lengths.setdefault(identify(one), set()).add(one.months)
    if all(len(found) == 1 for found in lengths.values()):
        return list(own)
    asked = find_length(questions, today)
    fitting = {key: max((one for one in found if one <= asked), default=min(found)) for key, found in lengths.items()}
    return [one for one in own if one.months == fitting[identify(one)]]


def identify(one: OwnSeries) -> tuple[str, ...]:
    """Return what columns share that differ in the periods of their values alone; a plain column shares nothing."""
    return (one.sheet_id, one.label, one.names[0]) if one.names else (one.sheet_id, "", one.column)


def find_length(questions: Sequence[str], today: date) -> int:
    """Return the months of the shortest period that the last question names, else the one before; 0 without any."""
    for text in reversed(questions):
        found = [one for one in periods.read(text, today).periods if one.start and one.end]
        if found:
            return min(measure_months(one.start, one.end) for one in found if one.start and one.end)
    return 0
