"""Rises and falls: between two stated numbers, and of a column in its period."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.services.planner.answering.verification.comparison.measuring import (
    CHANGE,
    Tables,
    measure_period,
)
from fathom.services.planner.answering.verification.comparison.parts import (
    OPPOSITE,
    Clause,
    Comparison,
    find_scopes,
    is_stated,
)
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.events import DIRECTIONS

# "from 1.7% in May to 1.2%", 由5.0%升至5.4%: the first value and the last one of a course.
FROM, TO = (
    re.compile(r"\bfrom\s+\W*$|[从由自][^，,；;]*$", re.IGNORECASE),
    re.compile(r"\bto\s+\W*$|[到至]\W*$", re.IGNORECASE),
)
# A limit, and no rise or fall.
BOUND = re.compile(r"(?:up|down)\s+to\s+(?:the\s+end\s+of\s+)?", re.IGNORECASE)
# Changes of pace, in which not a column but its rate goes up or down.
PACES = (
    re.compile(r"\b(?:quickened|accelerated)\b|加快|加速", re.IGNORECASE),
    re.compile(r"\b(?:slowed|decelerated|eased)\b|放缓|减速", re.IGNORECASE),
)


def judge_direction(tables: Tables, clause: Clause) -> Comparison | None:
    """Return a rise or fall without a number, judged by the columns in its period; None where they decide nothing."""
    ways = [find_way(clause, pattern) for pattern in DIRECTIONS]
    if bool(ways[0]) == bool(ways[1]) or any(is_stated(number) for number in clause.numbers):
        return None
    way, match = (1, ways[0]) if ways[0] else (-1, ways[1])
    scopes = drop_wider(find_scopes(clause))
    series = tables.find_series(clause.text) or (tables.series if len(tables.series) == 1 else [])
    if match is None or not scopes or (len(series) > 1 and len({one.name.rpartition(".")[2] for one in series}) > 1):
        return None
    is_decided = False
    for one in series:
        for scope in scopes:
            values = measure_period(one, scope, CHANGE)
            if values and all(way * value < 0 for value in values.values()):
                why = f"{one.name} went the other way in {scope.text}"
                return Comparison(clause.start + match.start(), clause.start + match.end(), why)
            is_decided = is_decided or bool(values)
    return Comparison(clause.start + match.start(), clause.start + match.end(), "") if is_decided else None


def find_way(clause: Clause, direction: re.Pattern[str]) -> re.Match[str] | None:
    """Return the first word of a direction; the one of "up to 28 December" belongs to the date."""
    dates = {moment.start for moment in clause.moments}
    for match in direction.finditer(clause.text):
        bound = BOUND.match(clause.text, match.start())
        if bound is None or bound.end() not in dates:
            return match
    return None


def drop_wider(scopes: Sequence[Moment]) -> list[Moment]:
    """Return periods without those that have another one inside: "of the years 2016 to 2021 only 2018 fell"."""

    def is_inside(one: Moment, other: Moment) -> bool:
        if not (one.first and one.last) or one.days >= other.days:
            return False
        return (other.first or one.first) <= one.first and one.last <= (other.last or one.last)

    return [scope for scope in scopes if not any(is_inside(one, scope) for one in scopes)]


def judge_course(clause: Clause) -> Comparison | None:
    """Return a rise or fall judged by the two numbers that it states; None without two."""
    stated = [one for one in clause.numbers if is_stated(one) and not one.is_difference]
    ways = [
        pattern.search(clause.text) or pace.search(clause.text) for pattern, pace in zip(DIRECTIONS, PACES, strict=True)
    ]
    if len(stated) != 2 or bool(ways[0]) == bool(ways[1]) or stated[0].kind != stated[1].kind:
        return None
    first, last = (clause.text[: one.start - clause.start] for one in stated)
    way, match = (1, ways[0]) if ways[0] else (-1, ways[1])
    if match is None or not FROM.search(first) or not TO.search(last):
        return None
    # "from 151.0 to 130.5 million": both are in millions.
    start, end = (one.value * one.shared for one in stated)
    is_false = way * (end - start) < 0 and (stated[0].scaled or stated[0].shared != 1.0) == stated[1].scaled
    return Comparison(clause.start + match.start(), clause.start + match.end(), OPPOSITE if is_false else "")
