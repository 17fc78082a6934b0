"""Periods that the names of columns say: "Q1 2024 Revenue", "1Q24", "FY2023", "Jan-24", 2024年第一季度."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from fathom.core.errors import InvalidField
from fathom.domain.periods.grammar import read_periods
from fathom.domain.periods.lexer import split_items
from fathom.domain.periods.period import Kind, Period, count_whole_months
from fathom.services.datafetch.catalog.text import BRACKETS

# A number of a name is a year only if tables are of such years: units may be called 1850.
YEARS = range(1900, 2101)
# Nothing in the name of a column counts from today, so that any day serves as the anchor.
ANCHOR = date(2001, 1, 1)
# What joins a period to the name beside it in tables: "Revenue: Q1 2024", "revenue_2024".
SIGNS = " -–—_./:;|,，'’\""
# Words that join them in sentences: "Revenue in Q1 2024", 2024年的收入.
JOINING = frozenset({"at", "of", "de", "the", "from", "to", "hyphen", "comma"})
MONTHS_OF_YEAR = 12
# A year in front of a noun is a number of such things in a sentence, but not in the name of a column.
YEAR_AHEAD = re.compile(r"((?:19|20)\d\d)\s+(\D.*)")
# Longer texts of cells are sentences.
MOST_CELL_CHARS = 40


@dataclass(frozen=True)
class ColumnPeriod:
    """Period of a column: its words, its first and last day, and what else the name says."""

    words: str
    start: date
    end: date
    rest: str = ""

    @property
    def year(self) -> int:
        """Return the year that the period is; 0 for any other one."""
        return self.end.year if self.months == MONTHS_OF_YEAR and self.start.year == self.end.year else 0

    @property
    def months(self) -> int:
        """Return how many whole months the period has; 0 for days."""
        return count_whole_months(self.start, self.end)


def read_column_period(name: str, year: int = 0) -> ColumnPeriod | None:
    """Return the one period that a name says; None where it says none, several or one without a beginning or an end.

    ``year`` completes a name that has none: "Q1" of a table for 2024. Without any period it is that of the name.
    """
    text = open_brackets(name)
    found = find_single(text)
    if found is None and (ahead := YEAR_AHEAD.fullmatch(text)) and not read_periods(text, ANCHOR).periods:
        text = f"{ahead[2]} {ahead[1]}"
        found = find_single(text)
    if found is None and year and not read_periods(text, ANCHOR).periods:
        text = f"{text} {year}"
        found = find_single(text)
    if found is None:
        return None
    period, spans = found
    assert period.start is not None
    assert period.end is not None
    words = " ".join(text[start:end].strip() for start, end in spans)
    return ColumnPeriod(words, period.start, period.end, trim_joints(cut_spans(text, spans)))


def read_part(name: str) -> ColumnPeriod | None:
    """Return the part of a year that a name says without the year: "Q1", "Mar"; its days are those of a sample year."""
    if read_column_period(name) is not None:
        return None
    found = read_column_period(name, ANCHOR.year)
    if found is None or not 0 < found.months < MONTHS_OF_YEAR:
        return None
    return replace(found, words=found.words.removesuffix(str(ANCHOR.year)).strip())


def find_row_period(text: str) -> ColumnPeriod | None:
    """Return the period that the whole of a cell says: "2024-03", "Q1 2024", "FY2023"."""
    found = read_column_period(text.strip()) if len(text) <= MOST_CELL_CHARS else None
    return None if found is None or re.search(r"\w", found.rest) else found


def find_single(text: str) -> tuple[Period, Sequence[tuple[int, int]]] | None:
    """Return the only period of a text with the stretches that say it; None where a table has no such period."""
    found = read_periods(text, ANCHOR)
    if len(found.periods) != 1:
        return None
    (one,) = found.periods
    is_dated = one.kind in (Kind.WINDOW, Kind.POINT) and one.start is not None and one.end is not None
    if not is_dated or one.relative or one.trailing or one.is_approximate or one.episode:
        return None
    assert one.start is not None
    assert one.end is not None
    return (one, sorted(found.spans)) if one.start.year in YEARS and one.end.year in YEARS else None


def open_brackets(name: str) -> str:
    """Return a name with blanks for "_" and for brackets around a period: "Revenue (Q1 2024)"; others hold a unit."""
    # Behind "_" there is no end of a word for the grammar.
    text = name.replace("_", " ")
    return BRACKETS.sub(lambda found: f" {found[0][1:-1]} " if find_single(found[0][1:-1]) else found[0], text)


def cut_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text without some stretches and without brackets."""
    kept, at = [], 0
    for start, end in spans:
        kept.append(text[at:start])
        at = max(at, end)
    parts = [trim_joints(BRACKETS.sub(" ", part)) for part in (*kept, text[at:])]
    return " ".join(" ".join(filter(None, parts)).split())


def trim_joints(text: str) -> str:
    """Return a text without signs and words at its ends that join it to a period: "Revenue in"."""
    shown = text.strip(SIGNS)
    items = split_items(shown)
    while items and not JOINING.isdisjoint(items[-1].roles):
        shown = shown[: items.pop().start].rstrip(SIGNS)
    while items and not JOINING.isdisjoint(items[0].roles):
        shown = shown[items.pop(0).end :].lstrip(SIGNS)
        items = split_items(shown)
    return shown


def check_period(words: str, field: str, year: int = 0) -> ColumnPeriod:
    """Return the period that words say, those without a year in ``year``.

    Raises ``InvalidField`` for words that say none, or more than it.
    """
    found = read_column_period(words, year)
    if found is None:
        raise InvalidField(field, f'{words!r} is no single period with a first and a last day, such as "Q1 2024"')
    if re.search(r"\w", found.rest):
        raise InvalidField(field, f"of {words!r} only {found.words!r} is a period")
    return found
