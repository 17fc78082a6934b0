"""The check of what a number is based on: the period that a growth is measured against, and the prices of an amount.

Both are said in closed sets of words. Only what the table decides is false: a growth that has the stated value against
the other base, and an amount whose only column is in prices of the other kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from fathom.services.planner.answering.verification.checking.verdict import Verdict, make_finding
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.comparison.derived import MOST_ADDED
from fathom.services.planner.answering.verification.comparison.relations import find_relations
from fathom.services.planner.answering.verification.dates import Moment
from fathom.services.planner.answering.verification.evidence import Series, Source
from fathom.services.planner.answering.verification.lookup import is_stateable, list_scales
from fathom.services.planner.answering.verification.numbers import Number, is_close
from fathom.services.planner.answering.verification.units import ANNUAL_RATE, MONEY, find_kind
from fathom.services.planner.model.episode import Finding, FindingKind

YEAR, PREVIOUS = "a year before", "the period before"
GROWTH_BASES = {
    # "year on year", "than a year earlier".
    YEAR: re.compile(
        r"同比|\byear[- ](?:on|over)[- ]year\b|\byoy\b|\bfrom a year (?:earlier|before|ago)\b|"
        r"\bthan a year (?:earlier|before|ago)\b|\bon the year\b|\b"
        r"\bsame (?:month|quarter) (?:of|in) (?:\d{4}|the (?:year before|previous year))\b",
        re.IGNORECASE,
    ),
    # "quarter on quarter", "from the month before".
    PREVIOUS: re.compile(
        r"环比|\b(?:quarter|month)[- ](?:on|over)[- ](?:quarter|month)\b|\b[qm]o[qm]\b|\bon the (?:quarter|month)\b|"
        r"\bfrom the (?:previous|preceding) (?:quarter|month)\b|\bfrom the (?:quarter|month) before\b",
        re.IGNORECASE,
    ),
}
# Prices of a fixed year, and those of each period.
CONSTANT, CURRENT = "constant prices", "current prices"
PRICES = {
    # "chained 2012 dollars", "in 2012 prices".
    CONSTANT: re.compile(r"\bchained\b|\bchn\b|\b(?:constant|\d{4}) (?:prices|dollars)\b|不变价|可比价", re.IGNORECASE),
    # "at current prices", "nominal".
    CURRENT: re.compile(r"\bcurrent (?:prices|dollars)\b|\bnominal\b|现价|名义|当年价格", re.IGNORECASE),
}
# An amount of one period alone, and one of a whole year: neither is a rate, and of a longer period than a row's the
# row has a part only.
ALONE = re.compile(
    r"\bin the (?:single |whole |full )?(?P<en>month|quarter) of\b|(?P<zh>单月|单季)|当(?P<zh2>月|季)", re.IGNORECASE
)
# "in the full year", "in all of 2021".
WHOLE = re.compile(
    r"\b(?:whole|full|entire)[ -]year\b|\bin all of (?=\d{4})|\bthe (?:whole|entire) of (?=\d{4})|全年", re.IGNORECASE
)
# Values that are no amounts of a period, of which each row has another one.
EXTREME = re.compile(r"\b(?:averag|mean|median)|平均|均", re.IGNORECASE)
# A year of daily to quarterly data has a value at most so many days off.
NEAREST = 10
YEAR_DAYS = 365
LONGEST = 100
CLAUSE = re.compile(r"[,;，；。]")


def find_false_bases(sentence: Sentence, read: Sequence[Source], times: Sequence[Moment]) -> Iterator[Finding]:
    """Yield the words for a base that the only column of the cited sources does not have."""
    columns = [series for source in read for series in source.series]
    if len(columns) != 1:
        return
    (series,) = columns
    for number in sentence.numbers:
        if number.kind == "%" and not number.is_difference and (found := find_base(sentence.text, number)):
            base, place = found
            if contradicts_base(number, series, times, base):
                why = f"the table has this change against {YEAR if base is PREVIOUS else PREVIOUS}"
                yield make_finding(sentence, *place, Verdict(False, FindingKind.NUMBER, why))
    yield from find_false_spans(sentence, series, times)
    said = PRICES[CURRENT].search(sentence.text)
    if said and PRICES[CONSTANT].search(series.unit) and not PRICES[CONSTANT].search(sentence.text):
        why = f"the material is in {series.unit}, which are {CONSTANT}"
        yield make_finding(sentence, *said.span(), Verdict(False, FindingKind.NUMBER, why))


def find_false_spans(sentence: Sentence, series: Series, times: Sequence[Moment]) -> Iterator[Finding]:
    """Yield the words that call a rate one period's amount, or the amount of one row that of a whole year."""
    alone, whole, days = ALONE.search(sentence.text), WHOLE.search(sentence.text), series.days or ()
    is_rate = ANNUAL_RATE.search(series.unit) is not None or series.per == "year"
    if alone and is_rate and not ANNUAL_RATE.search(sentence.text) and holds_any(sentence.numbers, series, times):
        why = f"the material is in {series.unit}, which is a rate of a year"
        yield make_finding(sentence, *alone.span(), Verdict(False, FindingKind.NUMBER, why))
    years = [one for one in times if one.first and one.last and YEAR_DAYS <= one.days <= YEAR_DAYS + 1]
    if not whole or len(years) != len(times) or EXTREME.search(sentence.text) or find_relations(sentence.text):
        return
    rows = [sum(one.covers(day) for day in days) for one in years]
    # Several rows of amounts, not of levels: what is in percent, priced or an index has no sum.
    if rows and 1 < min(rows) <= MOST_ADDED and find_kind(series.unit) in ("", MONEY) and not series.per:
        numbers = [one for one in sentence.numbers if one.scaled or one.decimals]
        if holds_any(numbers, series, times):
            why = "the table has this value for a part of the year"
            yield make_finding(sentence, *whole.span(), Verdict(False, FindingKind.NUMBER, why))


def holds_any(numbers: Sequence[Number], series: Series, times: Sequence[Moment]) -> bool:
    """Return whether a column has some of the numbers in a row of a named period."""
    cells = [float(value) for day, value in zip(series.days or (), series.values, strict=True) if is_named(day, times)]
    return any(
        is_close(cell * scale, [(number.value, number.tolerance)])
        for number in numbers
        if number.kind != "%" and is_stateable(number, series)
        for scale in list_scales(number, series)
        for cell in cells
    )


def is_named(day: date, times: Sequence[Moment]) -> bool:
    """Return whether a day is in a named period."""
    return any(moment.covers(day) for moment in times)


def find_base(text: str, number: Number) -> tuple[str, tuple[int, int]] | None:
    """Return the only base that the clause of a number names, and its place."""
    cuts = [0, *(match.end() for match in CLAUSE.finditer(text)), len(text)]
    start = max(cut for cut in cuts if cut <= number.start)
    end = min((cut for cut in cuts if cut >= number.end), default=len(text))
    found = [
        (base, match.span())
        for base, pattern in GROWTH_BASES.items()
        for match in pattern.finditer(text)
        if start <= match.start() < end
    ]
    return found[0] if len(found) == 1 else None


def contradicts_base(number: Number, series: Series, times: Sequence[Moment], base: str) -> bool:
    """Return whether a growth at the named dates has the stated value against the other base only."""
    days = series.days or ()
    named = [place for place, day in enumerate(days) if any(moment.covers(day) for moment in times)]
    if not named:
        return False
    has = {one: any(grows_by(number, series, place, one) for place in named) for one in GROWTH_BASES}
    other = YEAR if base is PREVIOUS else PREVIOUS
    return has[other] and not has[base]


def grows_by(number: Number, series: Series, place: int, base: str) -> bool:
    """Return whether the change of a value against a base is the stated one, in percent."""
    days = series.days or ()
    before = place - 1 if base is PREVIOUS else find_day(days, days[place] - timedelta(days=365))
    if before is None or before < 0 or not series.values[before]:
        return False
    if base is PREVIOUS and (days[place] - days[before]).days > LONGEST:
        return False
    growth = float(series.values[place] / series.values[before] - 1) * 100
    return is_close(abs(growth), [(abs(number.value), number.tolerance)])


def find_day(days: Sequence[date], wanted: date) -> int | None:
    """Return the place of the day that is nearest to a wanted one; None where none is near."""
    near = [(abs((day - wanted).days), place) for place, day in enumerate(days)]
    distance, place = min(near, default=(NEAREST + 1, 0))
    return place if distance <= NEAREST else None
