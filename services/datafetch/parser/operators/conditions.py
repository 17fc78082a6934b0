"""Conditions on values: "above 10 %", 跌破3000点, "in how many months", "when first"."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fathom.domain.chat.negation import Denial, denial_ahead
from fathom.services.datafetch.catalog.text import blank
from fathom.services.datafetch.parser.lexicon import cue, cues, group
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.query.model import Frequency

SCALES = {
    "万亿": 1e12, "亿": 1e8, "千万": 1e7, "百万": 1e6, "万": 1e4, "千": 1e3,
    "trillion": 1e12, "billion": 1e9, "million": 1e6, "thousand": 1e3,
}  # fmt: skip
# Bare numbers in this range may be years.
YEARS = range(1900, 2100)
# The complement on one value, not the mirror: "not above 3" is at most 3.
DENIED = {">": "<=", "<": ">=", ">=": "<", "<=": ">"}


@dataclass(frozen=True)
class Bound:
    """One comparison with a number.

    ``rate`` marks a percentage, ``points`` percentage or basis points; ``scale`` multiplies ``value`` (1e8 for 亿);
    ``moved`` is 1 for a rise, -1 for a fall and 0 for a level.
    """

    operator: str
    value: float
    scale: float = 1.0
    rate: bool = False
    points: bool = False
    moved: int = 0

    def __str__(self) -> str:
        unit = " percentage points" if self.points else " %" if self.rate else ""
        return f"{self.operator} {self.value * self.scale:.15g}{unit}"


@dataclass(frozen=True)
class Conditions:
    """The filters of a question.

    ``pick`` is "rows", "count", "first", "last" or "who"; ``kind`` is the entity kind to choose from ("stock",
    "currency") if ``pick`` is "who"; ``every`` is the length of the periods that are counted or listed. ``labels`` are
    the spans with what each of them means: "> 5 %", "count".
    """

    bounds: tuple[Bound, ...] = ()
    pick: str = "rows"
    kind: str = ""
    every: Frequency = Frequency.NATIVE
    labels: tuple[tuple[int, int, str], ...] = ()


def find_conditions(text: str) -> list[Mention]:
    """Return the mentions of the filters of a normalised text; the meaning of each is all of them."""
    found = parse_conditions(text)
    labels = found.labels if found else ()
    return [Mention(MentionKind.CONDITION, start, end, value, meaning=found) for start, end, value in labels]


def parse_conditions(text: str) -> Conditions | None:
    """Parse the filters of a normalised text; return None when it has none."""
    found = _find_bounds(text)
    rest = blank(text, [span for span, _ in found])
    if not found:
        found = _find_signs(rest)
    if not found:
        return None
    counts, first, last, when, who, money = (
        cue(name).search(rest) for name in ("counts", "first", "last_time", "when", "who", "currencies")
    )
    every = _find_length(*(match[0] for match in (counts, when) if match))
    if every:
        who = None
    asks_when = re.search(r"何时|when|什么时候|哪", rest, re.I)
    if first and when and cue("when").search(text[first.end() :]) is None and not asks_when:
        first = None
    pick = "count" if counts else "first" if first else "last" if last else "who" if who or money else "rows"
    labels: dict[tuple[int, int], str] = {}
    for span, bound in found:
        # "Between 2 and 3" is one span with two bounds.
        labels[span] = f"{labels[span]}, {bound}" if span in labels else str(bound)
    labels |= {match.span(): pick for match in (counts, first, last, when, who, money) if match}
    kind = ("currency" if money else "stock") if pick == "who" else ""
    bounds = tuple(bound for _, bound in found)
    return Conditions(bounds, pick, kind, every, tuple((*span, value) for span, value in labels.items()))


def _find_signs(rest: str) -> list[tuple[tuple[int, int], Bound]]:
    """Return a condition without a number: "negative", "up days"."""
    counts, first, last, when = (cue(name).search(rest) for name in ("counts", "first", "last_time", "when"))
    signs = [(pattern, Bound(sign, 0.0)) for sign, pattern in cues("signs")] if counts or first or last or when else []
    if counts or when:
        signs += [
            (pattern, Bound(">" if way == "1" else "<", 0.0, 1.0, True, False, int(way)))
            for way, pattern in cues("moves")
        ]
    for pattern, bound in signs:
        match = pattern.search(rest)
        stated = _find_denial(rest, match, bound.operator) if match else None
        if match and stated:
            return [((stated[1], match.end()), Bound(stated[0], 0.0, 1.0, bound.rate, False, bound.moved))]
    return []


def _find_length(*words: str) -> Frequency:
    """Return the period length that words such as "how many days" name, or ``NATIVE``."""
    found = (Frequency(value) for word in words for value, pattern in cues("lengths") if pattern.search(word))
    return next(found, Frequency.NATIVE)


def _find_bounds(text: str) -> list[tuple[tuple[int, int], Bound]]:
    """Return the comparisons with numbers and their spans: "between 2 % and 3 %" gives ``>=`` and ``<=``."""
    between = cue("between").search(text)
    if between:
        low, high = (_parse_amount(group(between, name)) for name in ("low", "high"))
        # "Between 2019 and 2021" is a period.
        years = [item for item in (low, high) if item.value in YEARS and item.scale == 1.0 and not item.rate]
        if not years or cue("in_units").search(between[0]):
            rate = low.rate or high.rate
            first = replace(low, operator=">=", rate=rate, scale=low.scale if low.scale != 1 else high.scale)
            pair = first, replace(high, operator="<=", rate=rate)
            return [(between.span(), bound) for bound in pair]
    found: list[tuple[tuple[int, int], Bound]] = []
    rest = text
    for operator, pattern in (*cues("bounds"), *cues("bounds_behind")):
        for match in list(pattern.finditer(rest)):
            amount, stated = _parse_amount(match[0]), _find_denial(text, match, operator)
            if stated is None or _is_year(match, amount):
                continue
            # Look before the negation, if there is one: 跌幅没有超过5%.
            ahead = text[: stated[1]]
            moved = -1 if cue("fallen").search(ahead) else 1 if cue("risen").search(ahead) else 0
            span = (stated[1], match.end())
            found.append((span, replace(amount, operator=stated[0], moved=moved)))
            rest = blank(rest, [span])
    return found


def _find_denial(text: str, match: re.Match[str], operator: str) -> tuple[str, int] | None:
    """Return the operator after negation and the start of the phrase: "not above" is ``<=``.

    Return None for a negation over the whole period ("never above"), which no filter on single values expresses.
    """
    denied = denial_ahead(text, match.start())
    if denied is None:
        return operator, match.start()
    how, start = denied
    # A filter on single values would find the values that pass, not whether all do.
    return None if how is Denial.NEVER else (DENIED[operator], start)


def _parse_amount(words: str) -> Bound:
    """Parse the first amount in some words; basis points are converted to percentage points."""
    match = cue("an_amount").search(words)
    if match is None:
        raise AssertionError(f"the pattern of a condition holds no amount: {words!r}")
    value = float(match["n"].replace(",", "").replace("$", ""))
    unit = (match["u"] or "").lower()
    points = bool(re.match(r"percentage|个?百分点|pp", unit))
    # A basis point is a hundredth of a percentage point.
    basis = bool(re.match(r"basis|bp|个?基点", unit))
    rate = unit.startswith(("%", "per")) or points or basis
    return Bound(
        "", value / 100 if basis else value, SCALES.get((match["s"] or "").lower(), 1.0), rate, points or basis
    )


def _is_year(match: re.Match[str], amount: Bound) -> bool:
    """Return whether a number is a year rather than an amount: "over 2019", "2010年以上"."""
    bare = amount.scale == 1.0 and not amount.rate and not group(match, "u")
    # "Over 2019" means during 2019; "above 2019" is a level of an index.
    begins = re.match(r"\s*(?:over|under|beyond)\b", match[0], re.I) is not None
    return bare and amount.value in YEARS and (begins or match.string[match.end() : match.end() + 1] == "年")
