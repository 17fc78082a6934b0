"""Arithmetic of the numbers of one sentence or table, which need no source of their own."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.services.planner.answering.verification.numbers import Number, is_close


def express_as_written(number: Number, held: float) -> float:
    """Return a value of the material in the unit of the text: 8.06 % for a fraction of 0.0806."""
    for factor in (1.0, 100.0, 1e4):
        for value in (held * factor, -held * factor):
            if is_close(value, [(number.value, number.tolerance)]):
                return value
    return number.value


def lacks_points(number: Number, shares: Sequence[float]) -> bool:
    """Return whether a number in percent is a difference of two percentages, which is one in percentage points."""
    if number.kind != "%" or number.is_difference:
        return False
    differences = [abs(left - right) for left in shares for right in shares if left != right]
    return any(is_close(value, [(abs(number.value), number.tolerance)]) for value in differences)


def is_total(number: Number, values: Sequence[float]) -> bool:
    """Return whether the number is the sum or the mean of at least two values."""
    if len(values) < 2:
        return False
    made = [sum(values), sum(values) / len(values)]
    return any(is_close(value, number.candidates()) for value in made)


def is_derived(number: Number, values: Sequence[float]) -> bool:
    """Return whether the number is the difference, sum, ratio or change of two other values."""
    for left in values:
        for right in values:
            if left == right:
                continue
            made = [abs(left - right), left + right]
            if right and not number.is_difference:
                made += [left / right, abs(left / right - 1) * (100 if number.kind == "%" else 1)]
            # Basis points are hundredths of the percentages that they part.
            wanted = number.candidates()[1:] if number.kind == "bp" else [(number.value, number.tolerance)]
            if any(is_close(value, [(abs(said), slack) for said, slack in wanted]) for value in made):
                return True
    return False
