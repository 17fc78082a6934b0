"""Values of formulas with their units: single values, columns by dates, and truths by dates.

Values stay in the unit of their column, as a model reads it there; a relative change is in per cent. Two columns of one
kind in different scales are brought to the scale of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from fathom.services.planner.answering.verification.evidence import Series
from fathom.services.planner.answering.verification.numbers import CURRENCIES, CURRENCY_IN_UNIT
from fathom.services.planner.answering.verification.units import MONEY, PER, PERCENT, find_kind, may_be_same

# Share of the shorter column's dates that two columns must have in common.
FEWEST_SHARED = 0.8


class FormulaError(ValueError):
    """A formula has no value: it is malformed, names what there is not, or joins what does not go together."""


class Form(StrEnum):
    """Kind of a value, beside the unit of its column."""

    LEVEL = "level"
    """A value of a column, or a sum or mean of some."""
    DIFFERENCE = "difference"
    """A difference of two levels."""
    PERCENT = "percent"
    """A relative change, or a rate derived from one."""
    POINTS = "points"
    """A difference of two percentages."""
    PLAIN = "plain"
    """A ratio, a count, or a number of the formula."""
    DATE = "date"
    """A day, by its ordinal number."""


@dataclass(frozen=True)
class Unit:
    """Unit of a value: its form, the column whose unit it is in, and the time that it is a rate of."""

    form: Form
    series: Series | None = None
    per: str = ""

    @property
    def is_in_percent(self) -> bool:
        """Return whether a value is a percentage by its form or by its column."""
        held = self.series is not None and find_kind(self.series.unit) == PERCENT
        return self.form is Form.PERCENT or (self.form is Form.LEVEL and held)

    @property
    def is_in_points(self) -> bool:
        """Return whether a value is a difference of percentages."""
        held = self.series is not None and find_kind(self.series.unit) == PERCENT
        return self.form is Form.POINTS or (self.form is Form.DIFFERENCE and held)


PLAIN = Unit(Form.PLAIN)


@dataclass(frozen=True)
class Scalar:
    """One value."""

    value: float
    unit: Unit = PLAIN


@dataclass(frozen=True)
class Column:
    """Values by date: ``days`` datetime64[D] [n] in order, ``values`` float64 [n]."""

    days: Any
    values: Any
    unit: Unit

    def keep(self, mask: Any) -> Column:
        """Return the rows of a mask; raise ``FormulaError`` where it has none."""
        if not mask.any():
            raise FormulaError("there is no value in this period")
        return replace(self, days=self.days[mask], values=self.values[mask])


@dataclass(frozen=True)
class Truths:
    """Truth of a condition at each date: ``values`` bool [n]."""

    days: Any
    values: Any


Value = Scalar | Column | Truths | bool | str | tuple["Value", ...]
Operation = Callable[[Any, Any], Any]


def make_column(series: Series) -> Column:
    """Return a series of the material as a column in the order of its dates; raise ``FormulaError`` without dates."""
    if series.days is None or not len(series.values):
        raise FormulaError(f"{series.name} has no dates")
    days = np.array(series.days, dtype="datetime64[D]")
    order = np.argsort(days, kind="stable")
    return Column(days[order], np.asarray(series.values, float)[order], Unit(Form.LEVEL, series))


def align(left: Column, right: Column) -> tuple[Any, Any, Any]:
    """Return the dates that two columns share and their values there; raise ``FormulaError`` where they share few."""
    days, ours, theirs = np.intersect1d(left.days, right.days, return_indices=True)
    # Month ends and days of trading coincide by chance: what holds on those says nothing of the rest.
    if len(days) < FEWEST_SHARED * min(len(left.days), len(right.days)):
        raise FormulaError("the two columns have few dates in common: bring them to one frequency by per()")
    return days, left.values[ours], right.values[theirs]


def apply(operation: Operation, left: Scalar | Column, right: Scalar | Column, unit: Unit, factor: float) -> Any:
    """Return the result of an operation by dates, or of two single values; ``factor`` scales the right side."""
    if isinstance(left, Column) and isinstance(right, Column):
        days, ours, theirs = align(left, right)
        return Column(days, operation(ours, theirs * factor), unit)
    if isinstance(left, Column):
        assert isinstance(right, Scalar)
        return Column(left.days, operation(left.values, right.value * factor), unit)
    if isinstance(right, Column):
        return Column(right.days, operation(left.value, right.values * factor), unit)
    return Scalar(float(operation(left.value, right.value * factor)), unit)


def add(left: Scalar | Column, right: Scalar | Column) -> Any:
    return apply(np.add, left, right, choose_unit(left.unit, right.unit), find_factor(left.unit, right.unit))


def subtract(left: Scalar | Column, right: Scalar | Column) -> Any:
    """Return a difference: of two dates in days, of two percentages in points."""
    factor, one, other = find_factor(left.unit, right.unit), left.unit, right.unit
    if Form.DATE in (one.form, other.form):
        unit = PLAIN
    elif Form.PLAIN in (one.form, other.form):
        unit = choose_unit(one, other)
    elif Form.PERCENT in (one.form, other.form) or Form.POINTS in (one.form, other.form):
        unit = Unit(Form.POINTS)
    else:
        unit = Unit(Form.DIFFERENCE, one.series or other.series)
    return apply(np.subtract, left, right, unit, factor)


def multiply(left: Scalar | Column, right: Scalar | Column) -> Any:
    """Return a product; of two values with units it has an unknown one."""
    plain = [one.unit.form is Form.PLAIN for one in (left, right)]
    unit = right.unit if plain[0] else left.unit if plain[1] else PLAIN
    return apply(np.multiply, left, right, unit, 1.0)


def divide(left: Scalar | Column, right: Scalar | Column) -> Any:
    """Return a ratio, of columns by their full amounts; raise ``FormulaError`` for a division by nothing."""
    values = right.values if isinstance(right, Column) else np.array([right.value])
    if not np.all(values):
        raise FormulaError("division by zero")
    if right.unit.form is Form.PLAIN:
        return apply(np.divide, left, right, left.unit, 1.0)
    ours, theirs = (one.unit.series.scale if one.unit.series else 1.0 for one in (left, right))
    return apply(np.divide, left, right, PLAIN, theirs / ours)


def compare(operation: Operation, left: Value, right: Value) -> Truths | bool:
    """Return whether a relation holds, by dates where a side has some; raise ``FormulaError`` for other values."""
    one, other = require_number(left), require_number(right)
    found = apply(operation, one, other, PLAIN, find_factor(one.unit, other.unit))
    if isinstance(found, Column):
        return Truths(found.days, found.values.astype(bool))
    return bool(found.value)


def choose_unit(left: Unit, right: Unit) -> Unit:
    return right if left.form is Form.PLAIN else left


def find_factor(left: Unit, right: Unit) -> float:
    """Return the factor that brings the right side to the scale of the left; raise ``FormulaError`` for other units.

    A number of the formula goes with anything.
    """
    if Form.PLAIN in (left.form, right.form):
        return 1.0
    if (left.form is Form.DATE) != (right.form is Form.DATE):
        raise FormulaError("a date and a value do not go together")
    is_percent = [one.is_in_percent or one.is_in_points for one in (left, right)]
    if any(is_percent) and not all(is_percent):
        raise FormulaError("a percentage and an amount do not go together")
    if left.series is None or right.series is None or all(is_percent):
        return 1.0
    if left.series.unit != right.series.unit and not has_same_kind(left.series.unit, right.series.unit):
        raise FormulaError(f"{left.series.unit} and {right.series.unit} do not go together")
    return right.series.scale / left.series.scale


def has_same_kind(left: str, right: str) -> bool:
    """Return whether two units may be of one kind, and of one currency."""
    kinds = find_kind(left), find_kind(right)
    if all(kinds) and kinds[0] != kinds[1]:
        return False
    if kinds != (MONEY, MONEY):
        return True
    held = [
        [CURRENCIES[found.group(1).lower()] for found in CURRENCY_IN_UNIT.finditer(PER.split(unit)[0] or unit)]
        for unit in (left, right)
    ]
    return any(may_be_same(one, other) for one in held[0] for other in held[1])


def require_number(value: Value) -> Scalar | Column:
    if not isinstance(value, Scalar | Column):
        raise FormulaError("a value or a column is wanted here")
    return value


def require_column(value: Value) -> Column:
    if not isinstance(value, Column):
        raise FormulaError("a column is wanted here")
    return value


def require_scalar(value: Value) -> Scalar:
    if not isinstance(value, Scalar):
        raise FormulaError("a single value is wanted here")
    return value


def require_text(value: Value) -> str:
    if not isinstance(value, str):
        raise FormulaError("a text in quotation marks is wanted here")
    return value


def require_truths(value: Value) -> Truths:
    if not isinstance(value, Truths):
        raise FormulaError("a condition over dates is wanted here")
    return value
