"""Periods of formulas: years, quarters, months, days, ranges of them, and calendar units of a column's dates."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Any

import numpy as np

from fathom.services.planner.answering.verification.typed.values import FormulaError

# "2021", "2021-Q3", "2021-H1", "2021-09", "2021-09-30".
SPAN = re.compile(r"(?P<year>\d{4})(?:-(?:Q(?P<quarter>[1-4])|H(?P<half>[12])|(?P<month>\d{2})(?:-(?P<day>\d{2}))?))?")
RANGE, WHOLE = ":", "all"
# Months of a calendar unit.
UNITS = {"month": 1, "quarter": 3, "year": 12}


def parse_span(text: str) -> tuple[date, date]:
    """Return the first and last day of a period such as "2021-Q3" or "2007:2009-06"; raise ``FormulaError``."""
    if text.strip() == WHOLE:
        return date.min, date.max
    edges = [part.strip() for part in text.split(RANGE)]
    if len(edges) > 2:
        raise FormulaError(f"{text!r} is no period")
    spans = [parse_edge(edge) for edge in edges]
    first, last = spans[0][0], spans[-1][1]
    if first > last:
        raise FormulaError(f"{text!r} ends before it begins")
    return first, last


def parse_edge(text: str) -> tuple[date, date]:
    """Return the first and last day of one calendar period; raise ``FormulaError``."""
    found = SPAN.fullmatch(text)
    if found is None:
        raise FormulaError(f"{text!r} is no period")
    year = int(found["year"])
    try:
        if found["day"]:
            day = date(year, int(found["month"]), int(found["day"]))
            return day, day
        if found["month"]:
            first = last = int(found["month"])
        elif found["quarter"]:
            last = 3 * int(found["quarter"])
            first = last - 2
        elif found["half"]:
            last = 6 * int(found["half"])
            first = last - 5
        else:
            first, last = 1, 12
        return date(year, first, 1), date(year, last, calendar.monthrange(year, last)[1])
    except ValueError as error:
        raise FormulaError(f"{text!r} is no period: {error}") from error


def select_days(days: Any, span: tuple[date, date]) -> Any:
    """Return a mask over ``days``, datetime64[D] in order, of those within a period, both ends included."""
    return (days >= np.datetime64(span[0], "D")) & (days <= np.datetime64(span[1], "D"))


def number_units(days: Any, unit: str) -> Any:
    """Return the number of the calendar unit of each day, counted from 1970; raise ``FormulaError`` for another."""
    if unit not in UNITS:
        raise FormulaError(f"{unit!r} is none of {', '.join(UNITS)}")
    return days.astype("datetime64[M]").astype(int) // UNITS[unit]


def list_unit_ends(numbers: Any, unit: str) -> Any:
    """Return the last days of calendar units by their numbers, as datetime64[D]."""
    months = ((numbers + 1) * UNITS[unit]).astype("datetime64[M]")
    return months.astype("datetime64[D]") - np.timedelta64(1, "D")
