"""Lengths of time that the steps of a program have: "60-day" is none of them where only a period or a bound is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import combinations

from fathom.domain.periods.period import DAYS_OF, MONTHS_OF, Unit, has_months
from fathom.services.datafetch.parser.lexicon import list_words
from fathom.services.datafetch.parser.mention import Mention, MentionKind, select

# Steps whose number is compared with values, and whose unit is that of the values: neither is a length.
COMPARING = frozenset({"count_if", "share_if", "first_if", "last_if", "longest", "where", "crossings"})
DAY_NAMED = re.compile(r"'(\d{4}-\d\d-\d\d)'")
SAMPLING = frozenset({"vol", "sharpe", "sortino", "corr", "beta", "portfolio"})


def is_length(value: str) -> bool:
    """Return whether the value of a number counts units of time: "60 days"."""
    return value.partition(" ")[2] in list_words("relations", "lengths")


def is_window(length: Mention, steps: Sequence[str]) -> bool:
    """Return whether steps compute over a length: by their own numbers, or over days that are so far apart."""
    count, _, units = length.value.partition(" ")
    asked = measure(float(count), units.removesuffix("s"))
    return is_moving(float(count), units.removesuffix("s"), steps) or (asked is not None and is_covered(*asked, steps))


def is_moving(count: float, unit: str, steps: Sequence[str]) -> bool:
    """Return whether a step moves over a length, in its unit or another one: 12 months are a year."""
    asked = measure(count, unit)
    # Steps over rows have a number alone, whatever the rows are of.
    return any(measure(found, each) == asked or (not each and found == count) for found, each in _list(steps))


def is_covered(count: float, is_days: bool, steps: Sequence[str]) -> bool:
    """Return whether two days that steps name are so many months or days apart: "ten-year" from 2009 to 2019."""
    days = sorted({date.fromisoformat(day) for step in steps for day in DAY_NAMED.findall(step)})
    pairs = list(combinations(days, 2))
    if is_days:
        return any((last - first).days == count - 1 for first, last in pairs)
    return any(has_months(first, last, int(count)) for first, last in pairs)


def is_attributive(length: Mention, question: str, mentions: Sequence[Mention]) -> bool:
    """Return whether a length belongs to a measure: "ten-year", "three month return"; of "the two years" none does."""
    text = question[length.start : length.end]
    named = select(mentions, MentionKind.MEASURE, MentionKind.INDICATOR)
    ahead = (item for item in named if item.start >= length.end and not question[length.end : item.start].strip(" -的"))
    return "-" in text or any(map(str.isdigit, text)) or any(ahead)


def measure(count: float, unit: str) -> tuple[float, bool] | None:
    """Return a length in months, or days with a mark; None without a unit."""
    named = Unit(unit) if unit in set(Unit) else None
    if named in DAYS_OF:
        return count * DAYS_OF[named], True
    return (count * MONTHS_OF[named], False) if named in MONTHS_OF else None


def _list(steps: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Yield the numbers of steps that are no bounds, with their units; a unit alone counts once."""
    for call in (node for step in steps for node in ast.walk(ast.parse(step)) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        values = [one.value for one in call.args if isinstance(one, ast.Constant)]
        unit = next((one for one in values if isinstance(one, str) and one in set(Unit)), "")
        numbers = [float(one) for one in values if isinstance(one, int | float)] or ([1.0] if unit else [])
        if name not in COMPARING | SAMPLING:
            yield from ((one, unit) for one in numbers)
