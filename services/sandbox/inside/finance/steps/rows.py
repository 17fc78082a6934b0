"""Rows of a table that is no series: some of them, their values as one, and each by its label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from fathom.services.sandbox.inside.finance.errors import InvalidArgument
from fathom.services.sandbox.inside.finance.inputs import unit_of
from fathom.services.sandbox.inside.finance.steps.values import (
    Group,
    Note,
    Point,
    check_column,
    describe_class,
    spell_unit,
)


@dataclass(frozen=True, eq=False)
class Rows:
    """A column of a table and some of its rows, by their places from 0 as they stand in the sheet."""

    frame: Any
    column: str
    name: str
    unit: str = ""
    places: tuple[int, ...] = ()

    @cached_property
    def values(self) -> Any:
        """Return the values of the rows by place, without missing ones; refuse rows without any.

        A cell is missing where it is empty, or its text is no number.
        """
        found = pd.to_numeric(self.frame[self.column].iloc[list(self.places)], errors="coerce")
        found = found.set_axis(list(self.places)).dropna()
        if found.empty:
            raise InvalidArgument("rows", f"{self.name} has no value in these rows")
        return found

    def make_point(self, value: Any, places: Any, name: str = "") -> Point:
        """Return a value with the rows that it rests on."""
        rows = {self.column: (len(self.frame), tuple(int(place) for place in places))}
        return Point(float(value), unit=self.unit, name=name or self.name, notes=self.notes, rows=rows)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Return that rows have no number, if any has none: a value over the others is not that of all."""
        count, known = len(self.places), len(self.values)
        if known == count:
            return ()
        return (
            Note(
                f"{count - known} of {count} rows without a number for {self.name}",
                f"{count}行中有{count - known}行没有{self.name}的数值",
                is_gap=True,
            ),
        )


def rows(sheet: Any, column: str, name: str = "") -> Rows:
    """Return all rows of a sheet for one of its columns; raise ``InvalidArgument`` for one that the sheet lacks."""
    if not isinstance(sheet, pd.DataFrame):
        raise InvalidArgument("sheet", f"must be a DataFrame, not {type(sheet).__name__}")
    check_column(sheet, column)
    return Rows(sheet, column, name or column, spell_unit(unit_of(sheet, column)), tuple(range(len(sheet))))


def pick(found: Rows, what: str, *places: int) -> Rows:
    """Return the rows at some places, ``what`` being words for them."""
    check_rows(found)
    if not places or any(place not in found.places for place in places):
        raise InvalidArgument("places", f"must be among the {len(found.places)} rows")
    return replace(found, places=tuple(places))


def value(found: Rows) -> Point:
    """Return the value of a single row."""
    check_rows(found)
    if len(found.values) != 1:
        raise InvalidArgument("rows", f"must be a single one, not {len(found.values)}")
    return sum_rows(found)


def sum_rows(found: Rows) -> Point:
    """Return the sum of the values of some rows."""
    check_rows(found)
    return found.make_point(found.values.sum(), found.values.index)


def mean_rows(found: Rows) -> Point:
    """Return the mean of the values of some rows."""
    check_rows(found)
    return found.make_point(found.values.mean(), found.values.index)


def by_label(found: Rows, column: str) -> Group:
    """Return the value of each row by its label in a column of texts, for ``top``, ``bottom`` and ``rank``."""
    check_rows(found)
    check_column(found.frame, column)
    labels = found.frame[column].astype(str).str.strip()
    values = found.values
    named = [(labels.iloc[place], place) for place in values.index]
    if len({label for label, _ in named}) < len(named):
        raise InvalidArgument("column", f"{column!r} has a label more than once in these rows")
    return Group({label: found.make_point(values[place], [place], label) for label, place in named})


def check_rows(found: Any) -> None:
    """Raise ``InvalidArgument`` for what are no rows."""
    if not isinstance(found, Rows):
        raise InvalidArgument("rows", f"must be rows, not {describe_class(found)}")
