"""Comparison of a number that a statement gives with the value that was computed for it."""

from __future__ import annotations

from dataclasses import replace

from fathom.services.planner.answering.verification.lookup import is_stateable, list_scales
from fathom.services.planner.answering.verification.numbers import Number, find_numbers, is_close
from fathom.services.planner.answering.verification.typed.claim import Comparison
from fathom.services.planner.answering.verification.typed.values import Form, FormulaError, Scalar
from fathom.services.planner.answering.verification.units import (
    find_counted_time,
    find_denominator,
    may_share_denominator,
)

# "About 120 billion", "nearly 8 %": a value may be off by so much of the stated one.
ABOUT = 0.07
CHANGES = frozenset({Form.DIFFERENCE, Form.PERCENT, Form.POINTS})


def read_number(text: str) -> Number:
    """Return the only number of some words; raise ``FormulaError`` for none or several."""
    found = find_numbers(text)
    if len(found) != 1:
        raise FormulaError(f"{text!r} has {len(found)} numbers")
    time = find_counted_time(text, found[0])
    return replace(found[0], per=find_denominator(text, found[0]), time=time)


def explain_number(words: str, value: Scalar, comparison: Comparison) -> str:
    """Return why the number of some words is not the computed value, or not on its stated side; "" where it is.

    Raises ``FormulaError`` where the two cannot be compared.
    """
    number = read_number(words)
    held = list_candidates(number, value)
    if not held:
        return f"the material has it in {name_unit(value)}, which is another unit"
    # "Lost 30.2 %", "a deficit of 3 trillion": a size is stated without its sign.
    is_sized = not number.signed and (value.unit.form in CHANGES or value.value < 0)
    values = [value.value, -value.value] if is_sized else [value.value]
    shown = f"by the material it is {value.value:.6g} {name_unit(value)}".rstrip()
    if comparison in (Comparison.EQUALS, Comparison.ABOUT):
        if comparison is Comparison.ABOUT:
            held = [(wanted, max(slack, ABOUT * abs(wanted))) for wanted, slack in held]
        return "" if any(is_close(one, held) for one in values) else shown
    sign = 1 if comparison is Comparison.MORE else -1
    size = abs(value.value) if is_sized else value.value
    return "" if any(sign * (size - wanted) >= -slack for wanted, slack in held) else shown


def list_candidates(number: Number, value: Scalar) -> list[tuple[float, float]]:
    """Return a stated number with its tolerance in the unit of a value; [] where no unit of it can be that."""
    unit = value.unit
    if unit.form is Form.DATE:
        raise FormulaError("a day is compared with in_period()")
    if unit.is_in_points:
        return scale(number, 0.01 if number.kind == "bp" else 1.0) if number.is_difference or is_bare(number) else []
    if unit.is_in_percent:
        is_percent = number.kind == "%" and not number.is_difference
        if not (is_percent or is_bare(number)) or not may_share_denominator(number.per, unit.per):
            return []
        return scale(number, 1.0)
    if unit.series is not None:
        if not is_stateable(number, unit.series):
            return []
        return [pair for by in sorted(list_scales(number, unit.series)) for pair in scale(number, 1 / by)]
    # A ratio may be told as a share, as a multiple or as a quotient of amounts.
    return [*scale(number, 0.01), *scale(number, 1.0)] if number.kind == "%" else scale(number, 1.0)


def is_bare(number: Number) -> bool:
    """Return whether a number names no unit."""
    return not (number.kind or number.currency or number.noun)


def scale(number: Number, by: float) -> list[tuple[float, float]]:
    return [(number.value * by, number.tolerance * by)]


def name_unit(value: Scalar) -> str:
    """Return the unit of a value in words; "" for a plain number."""
    if value.unit.is_in_points:
        return "percentage points"
    if value.unit.form is Form.PERCENT:
        return "per cent a year" if value.unit.per else "per cent"
    return value.unit.series.unit if value.unit.series is not None else ""
