"""Periods, their arithmetic and their canonical labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from fathom.domain.periods.period import find_month_end, shift_months
from fathom.services.datafetch.catalog.schema import CalendarSpec, Frequency

# A daily series that ends on the last trading day of a period ends a weekend or a holiday before it; that is no gap.
# Days from the bound of a period from which the late begin or the early end of a series is reported.
LATE_DAYS = 7
MONTHS_OF = {Frequency.MONTHLY: 1, Frequency.QUARTERLY: 3, Frequency.ANNUAL: 12}


@dataclass(frozen=True)
class Period:
    """A range of days, both inclusive; None is open.

    ``grain`` is the frequency that the words imply ("" for none), ``cumulative`` marks a flow from the start of the
    fiscal year ("the first three quarters"), ``fiscal`` marks the entity's own years, ``relative`` marks a period
    that depends on the current day, ``listed`` marks one of several named one by one, ``is_length`` a length with one
    end ("the year to March"). ``rows`` is the number of trading days (0 for all), ``steps`` the number of spans of
    ``step`` months up to today, ``span`` the position in the text, and ``edge`` the end of the period that alone is
    meant, "start" or "end".
    """

    start: date | None = None
    end: date | None = None
    # Only the dates make two periods equal: the same range may be worded in several ways.
    grain: Frequency = field(default=Frequency.NATIVE, compare=False)
    cumulative: bool = field(default=False, compare=False)
    fiscal: bool = field(default=False, compare=False)
    relative: bool = field(default=False, compare=False)
    listed: bool = field(default=False, compare=False)
    is_length: bool = field(default=False, compare=False)
    rows: int = field(default=0, compare=False)
    steps: int = field(default=0, compare=False)
    step: int = field(default=0, compare=False)
    span: tuple[int, int] = field(default=(0, 0), compare=False)
    edge: str = field(default="", compare=False)


def in_fiscal(period: Period, spec: CalendarSpec) -> Period:
    """Return a fiscal period in calendar dates: FY2024 of a year that ends in September is 2023-10-01..2024-09-30."""
    if not period.fiscal or period.start is None or period.end is None or spec.fiscal_year_end == 12:
        return period
    # The fiscal year that ends in month m of year y begins 12 - m months before January of y.
    shift = (0 if spec.named_by == "start" else 12) - spec.fiscal_year_end
    start, end = shift_months(period.start, shift), shift_months(date(period.end.year, period.end.month, 1), shift)
    return Period(start, find_month_end(end.year, end.month), period.grain, period.cumulative, True, span=period.span)


def split(period: Period, grain: Frequency) -> list[Period]:
    """Split a range into periods of a frequency: 2020 to 2023 are four years. Open or daily ranges stay whole."""
    months = MONTHS_OF.get(grain)
    if months is None or period.start is None or period.end is None:
        return [period]
    # Months counted from year 0; the first period begins at or before the start.
    first = period.start.year * 12 + (period.start.month - 1) // months * months
    parts = []
    while (start := date(first // 12, first % 12 + 1, 1)) <= period.end:
        last = first + months - 1
        parts.append(Period(start, find_month_end(last // 12, last % 12 + 1), grain))
        first += months
    return parts


def label(period: Period) -> str:
    """Format a period: 2021, 2021Q3, 2021-07, 2021-07-27, or first..last."""
    start, end = period.start, period.end
    if start is None or end is None:
        return f"{start or ''}..{end or ''}"
    if start == end:
        return start.isoformat()
    months = (end.year - start.year) * 12 + end.month - start.month + 1
    # Only whole calendar periods have a short label; a fiscal year is shown by its dates.
    whole = start.day == 1 and end == find_month_end(end.year, end.month)
    if whole and months == 12 and start.month == 1:
        return str(start.year)
    if whole and months == 3 and start.month % 3 == 1:
        return f"{start.year}Q{end.month // 3}"
    return f"{start:%Y-%m}" if whole and months == 1 else f"{start}..{end}"
