"""Matches of the patterns of periods, as the builders read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fathom.domain.periods.lexer import Item
from fathom.domain.periods.period import Date, Kind, Period, Unit, settle

IMPOSSIBLE, REVERSED = Period(kind=Kind.IMPOSSIBLE), Period(kind=Kind.REVERSED)


@dataclass(frozen=True)
class Match:
    """The values and items that a pattern matched, the day that "today" means, and the only year of the text or 0.

    ``newest`` is the day of the newest value, from which "the latest month" counts.
    """

    values: Mapping[str, Any]
    items: Sequence[Item]
    today: date
    newest: date
    year: int

    def number(self, name: str) -> int:
        """Return a value as a number, or the first of several parts of a form; 0 without it."""
        value = self.values.get(name, 0)
        return int(value[0] if isinstance(value, list) else value)

    def unit(self) -> Unit:
        return Unit(self.values.get("u", Unit.QUARTER))

    def period(self) -> Period | None:
        return take_period(self.values.get("d", self.values.get("a")))


def widen_year(year: int) -> int:
    """Return a year of four digits; two digits up to 49 are 20xx, others 19xx."""
    return year if year > 99 else 2000 + year if year < 50 else 1900 + year


def take_period(value: Any) -> Period | None:
    """Return the period of a date that has its year."""
    return value if isinstance(value, Period) else settle(value) if isinstance(value, Date) and value.year else None


def is_open(value: Any) -> bool:
    """Return whether a date was written without its year."""
    return isinstance(value, Date) and not value.year
