"""Meanings of the columns of a user's own table: which are days, whose the rows are, and how values add up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fathom.core.errors import InvalidField
from fathom.domain.periods.period import count_whole_months
from fathom.services.datafetch.catalog.column_periods import ANCHOR, MONTHS_OF_YEAR, check_period, find_row_period
from fathom.services.datafetch.programs.own import is_day, is_number

MOST_NAMES, NAME_CHARS = 16, 100
YEARS = range(1000, 3000)


class Role(StrEnum):
    """Role of a column."""

    DATE = "date"
    """Days or years of the rows."""
    LABEL = "label"
    """Names of whom the rows are about."""
    VALUE = "value"
    IGNORED = "ignored"


class Aggregation(StrEnum):
    """Way in which the values of a period become one."""

    UNKNOWN = ""
    LAST = "last"
    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True)
class ColumnMeaning:
    """Meaning of a column.

    ``year`` is that of its values, which its name says, or ``period`` in words one that is no year ("Q1 2024"); both
    are empty where the rows have dates. Where the rows have years, ``period`` may be a part of one ("Q1"). ``names``
    are what questions may call it, ``indicator`` the catalogue's of which it has names.
    """

    column: str
    role: Role
    names: tuple[str, ...] = ()
    unit: str = ""
    aggregation: Aggregation = Aggregation.UNKNOWN
    year: int = 0
    indicator: str = ""
    period: str = ""

    def find_days(self, year: int = 0) -> tuple[date, date] | None:
        """Return the first and the last day that its name says, ``year`` being that of the row; None without any.

        Raises ``InvalidField("period")`` for words that are no period.
        """
        if self.period:
            found = check_period(self.period, "period", year)
            return found.start, found.end
        return (date(self.year, 1, 1), date(self.year, MONTHS_OF_YEAR, 31)) if self.year else None

    @property
    def name(self) -> str:
        """Return what answers call it."""
        return self.names[0] if self.names else self.column


@dataclass(frozen=True)
class TableMeaning:
    """Meanings of the columns of a table."""

    columns: tuple[ColumnMeaning, ...]

    def list_role(self, role: Role) -> list[ColumnMeaning]:
        """Return the columns of a role."""
        return [one for one in self.columns if one.role is role]

    @property
    def date(self) -> ColumnMeaning | None:
        """Return the column of days; None where the values' columns name years."""
        return next(iter(self.list_role(Role.DATE)), None)

    @property
    def label(self) -> ColumnMeaning | None:
        """Return the column that says whose the rows are; None for a table of one thing."""
        return next(iter(self.list_role(Role.LABEL)), None)

    @property
    def values(self) -> list[ColumnMeaning]:
        """Return the columns that are measured."""
        return self.list_role(Role.VALUE)

    def list_lengths(self) -> dict[str, tuple[int, ...]]:
        """Return by measure how many months the periods of its columns have, the shortest first; 0 is a day.

        () where the rows have the dates of the values.
        """
        found: dict[str, set[int]] = {}
        for one in self.values:
            # A quarter has as many months in any year.
            lengths, days = found.setdefault(one.name, set()), one.find_days(ANCHOR.year)
            lengths.update({count_whole_months(*days)} if days else ())
        return {name: tuple(sorted(lengths)) for name, lengths in found.items()}


def check_meaning(meaning: TableMeaning, table: pa.Table) -> None:
    """Raise ``InvalidField`` for a meaning that does not fit a table, with the place of the column."""
    seen: set[str] = set()
    for place, one in enumerate(meaning.columns):
        field = f"meaning.columns[{place}]"
        if one.column not in table.column_names:
            shown = ", ".join(table.column_names[:10])
            raise InvalidField(f"{field}.column", f"{one.column!r} is none of the table's: {shown}")
        if one.column in seen:
            raise InvalidField(f"{field}.column", f"{one.column!r} is named twice")
        seen.add(one.column)
        check_column(one, table, field, meaning.date)
    for role in (Role.DATE, Role.LABEL):
        if len(meaning.list_role(role)) > 1:
            raise InvalidField("meaning.columns", f"at most one column has the role {role}")
    if not meaning.values:
        raise InvalidField("meaning.columns", "no column has the role value")


def check_column(one: ColumnMeaning, table: pa.Table, field: str, dates: ColumnMeaning | None) -> None:
    """Raise ``InvalidField`` for a column that cannot mean what is said of it; ``dates`` is that of the rows' dates."""
    kind = table.schema.field(one.column).type
    if len(one.names) > MOST_NAMES or any(not 1 <= len(name.strip()) <= NAME_CHARS for name in one.names):
        raise InvalidField(f"{field}.names", f"must be at most {MOST_NAMES} of 1 to {NAME_CHARS} characters")
    if one.role is Role.DATE and not (is_day(kind) or is_text(kind) or pa.types.is_integer(kind)):
        raise InvalidField(f"{field}.role", f"{one.column!r} has neither days nor years")
    if one.role is Role.DATE and is_text(kind):
        check_row_periods(table, one.column, f"{field}.role")
    if one.role is not Role.VALUE:
        return
    if not is_number(kind):
        raise InvalidField(f"{field}.role", f"{one.column!r} has no numbers")
    if dates is not None and dates.column in table.column_names and one.period and has_years(table, dates.column):
        check_period(one.period, f"{field}.period", ANCHOR.year)
    else:
        check_time(one, field, has_date=dates is not None)


def is_text(kind: Any) -> bool:
    """Return whether a type is one of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def check_row_periods(table: pa.Table, column: str, field: str) -> None:
    """Raise ``InvalidField`` for a column of texts that names no periods."""
    for cell in pc.unique(table[column]).to_pylist():
        if cell and find_row_period(cell) is None:
            raise InvalidField(field, f"{column!r} has {cell[:NAME_CHARS]!r}, which is no day, year or other period")


def has_years(table: pa.Table, column: str) -> bool:
    """Return whether the rows' dates are whole years, of which a column may be a part."""
    kind = table.schema.field(column).type
    if not is_text(kind):
        return bool(pa.types.is_integer(kind))
    found = [find_row_period(cell) for cell in pc.unique(table[column]).to_pylist() if cell]
    return bool(found) and all(one is not None and one.year for one in found)


def check_time(one: ColumnMeaning, field: str, *, has_date: bool) -> None:
    """Raise ``InvalidField`` for a column of values of which it is not clear of when they are."""
    if has_date and one.year:
        raise InvalidField(f"{field}.year", "must be 0 where a column has the dates of the rows")
    if has_date and one.period:
        raise InvalidField(f"{field}.period", "must be empty where a column has the dates of the rows")
    if one.year and one.period:
        raise InvalidField(f"{field}.period", "must be empty beside a year: say one of both")
    if one.period:
        check_period(one.period, f"{field}.period")
    elif not has_date and one.year not in YEARS:
        raise InvalidField(
            f"{field}.year", f"say of which year or period the values of {one.column!r} are, or ignore it"
        )
