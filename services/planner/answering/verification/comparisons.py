"""Comparisons: "A returned more than B" must agree with the numbers beside it, or with the tables of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.events import DIRECTIONS
from fathom.services.planner.answering.verification.evidence import Series, Source
from fathom.services.planner.answering.verification.lookup import CHANGE, find_mentions

# Comparatives (followed by "than") and verbs of comparison, by the sign of left minus right.
MORE = re.compile(
    r"\b(?:more|higher|greater|larger|bigger|better|stronger)\b|\b(?:outperform|exceed|surpass)\w*|\bbeat(?:s|ing)?\b|"
    r"高于|大于|多于|跑赢|超过|优于|强于|领先于?|(?<=比)[^，。；]{1,20}?(?:高|多|大|好|强)",
    re.IGNORECASE,
)
LESS = re.compile(
    r"\b(?:less|lower|smaller|fewer|worse|weaker)\b|\b(?:underperform|lag|trail)\w*|"
    r"低于|小于|少于|跑输|不及|逊于|弱于|落后于?|(?<=比)[^，。；]{1,20}?(?:低|少|小|差|弱)",
    re.IGNORECASE,
)
# Only these compare two losses as numbers do; "larger" of two losses means the larger loss.
BY_LEVEL = re.compile(r"higher|lower|高于|低于", re.IGNORECASE)
EVERY = re.compile(
    r"\b(?:every|each)\s+(?:single\s+|calendar\s+)*(year|quarter|month)\b|每(?:一|个)?(年|季度|月)", re.IGNORECASE
)
LONGEST_NAME = 20
PERIODS = {"year": "year", "年": "year", "quarter": "quarter", "季度": "quarter", "month": "month", "月": "month"}


@dataclass(frozen=True)
class Comparison:
    """``left`` is said to have more (``sign`` 1) or less (-1) than ``right``, perhaps in every period."""

    left: str
    right: str
    sign: int
    start: int
    end: int
    period: str = ""


def find_comparison(text: str, known: Mapping[str, tuple[str, ...]], others: Sequence[str]) -> Comparison | None:
    """Return the comparison of a sentence that names its entities; None when it cannot be read for certain.

    ``others`` are the entities of the cited material: when they are two, "A returned more in every year" means more
    than the other one.
    """
    found = [(match, sign) for pattern, sign in ((MORE, 1), (LESS, -1)) if (match := pattern.search(text))]
    if len(found) != 1:
        return None
    (match, sign), every = found[0], EVERY.search(text)
    places = sorted(find_mentions(text, dict(known)).items(), key=lambda item: item[1])
    names = [entity for entity, _ in places]
    if len(names) == 1 and every and len(others) == 2 and names[0] in others:
        names.append(next(other for other in others if other != names[0]))
    elif len(names) != 2 or not surrounds(places, match) or lacks_than(match, text):
        return None
    period = PERIODS[(every.group(1) or every.group(2)).lower()] if every else ""
    return Comparison(names[0], names[1], sign, match.start(), match.end(), period)


def surrounds(places: Sequence[tuple[str, int]], match: re.Match[str]) -> bool:
    """Return whether the first entity stands before the words of comparison and the second one behind their start."""
    # In Chinese the second one stands between 比 and the adjective, which the match covers.
    return places[0][1] < match.end() and match.start() < places[1][1] + LONGEST_NAME


def lacks_than(match: re.Match[str], text: str) -> bool:
    """Return whether a comparative is not followed by "than": "higher" alone compares with an earlier time."""
    return match.group().isascii() and is_comparative(match.group()) and " than " not in text[match.end() :]


def is_comparative(word: str) -> bool:
    """Return whether a word is a comparative, which compares with what follows "than"."""
    return word.lower() in ("more", "less", "fewer", "better", "worse") or word.lower().endswith("er")


def contradicts_numbers(comparison: Comparison, sentence: Sentence) -> bool:
    """Return whether the two numbers of the sentence, one for each side, say the opposite.

    Judged only with exactly two numbers of one kind. Two falls are compared by their size.
    """
    numbers = [number for number in sentence.numbers if number.kind or number.decimals or number.scaled]
    if len(numbers) != 2 or numbers[0].kind != numbers[1].kind:
        return False
    left, right = (number.value for number in numbers)
    if DIRECTIONS[1].search(sentence.text):
        left, right = abs(left), abs(right)
    elif left < 0 and right < 0 and not BY_LEVEL.search(sentence.text):
        return False
    return comparison.sign * (left - right) < 0


def find_counterexample(comparison: Comparison, text: str, sources: Sequence[Source], times: Sequence[Moment]) -> str:
    """Return a period in which the tables say the opposite; "" when they agree or cannot decide.

    They decide when each side has exactly one column, both of one name and unit. A sentence about changes ("returned",
    "rose") is compared by the changes within each period, another one only when it holds for every period.
    """
    for source in sources:
        pair = find_pair(comparison, source)
        if pair is None:
            continue
        by_change = CHANGE.search(text) is not None or any(pattern.search(text) for pattern in DIRECTIONS)
        if not by_change and not comparison.period:
            continue
        left, right = (measure_periods(series, comparison.period, times, by_change) for series in pair)
        for name in left:
            if name in right and comparison.sign * (left[name] - right[name]) < 0:
                return name
    return ""


def find_pair(comparison: Comparison, source: Source) -> tuple[Series, Series] | None:
    """Return the only column of each side, when they are of one measure."""
    sides = [[one for one in source.series if one.entity == name] for name in (comparison.left, comparison.right)]
    if [len(side) for side in sides] != [1, 1]:
        return None
    (left,), (right,) = sides
    same = left.unit == right.unit and left.name.rpartition(".")[2] == right.name.rpartition(".")[2]
    return (left, right) if same and left.days and right.days else None


def measure_periods(series: Series, period: str, times: Sequence[Moment], by_change: bool) -> dict[str, float]:
    """Return the change or the last value of a column by period; one period, named "the period", without ``period``.

    The base of a change is the value before the period, or the first one in it. Only periods within ``times`` count.
    """
    rows = list(zip(series.days or (), (float(value) for value in series.values), strict=True))
    out: dict[str, float] = {}
    before: float | None = None
    for name, group in groupby(rows, key=lambda row: name_period(row[0], period)):
        part = list(group)
        inside = [value for day, value in part if not times or any(moment.covers(day) for moment in times)]
        if len(inside) == len(part) or (inside and not period):
            base = before if before is not None and len(inside) == len(part) else inside[0]
            if not by_change:
                out[name] = inside[-1]
            elif base:
                out[name] = inside[-1] / base - 1
        before = part[-1][1]
    return out


def name_period(day: date, period: str) -> str:
    """Return the name of the period that a day belongs to."""
    if period == "year":
        return str(day.year)
    if period == "quarter":
        return f"{day.year} Q{(day.month + 2) // 3}"
    return f"{day:%Y-%m}" if period == "month" else "the period"
