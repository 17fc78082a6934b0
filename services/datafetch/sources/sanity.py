"""Comparison of two vendors' prices; on disagreement both are kept and the days are reported."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from fathom.services.datafetch.sources.base import Fetched


@dataclass(frozen=True)
class Disagreement:
    """A day on which two closes differ by ``relative`` of the first."""

    day: date
    first: float
    second: float
    relative: float


@dataclass(frozen=True)
class Checked:
    """Both answers, unchanged, and their comparison.

    ``compared`` counts the days in both, ``only_first`` and ``only_second`` the others.
    """

    first: Fetched
    second: Fetched
    compared: int
    only_first: int
    only_second: int
    disagreements: tuple[Disagreement, ...]

    @property
    def agree(self) -> bool:
        """Return whether at least one day was compared and none differs."""
        return self.compared > 0 and not self.disagreements

    @property
    def scale(self) -> float | None:
        """Return the factor between the closes if it is the same on all differing days, otherwise None.

        A common factor hints at confused share classes or currencies.
        """
        ratios = [item.second / item.first for item in self.disagreements]
        # One per cent of play: closes are rounded, and a common factor with noise is still one.
        if len(ratios) < 2 or min(ratios) <= 0 or max(ratios) > min(ratios) * 1.01:
            return None
        return sum(ratios) / len(ratios)


def compare(first: Fetched, second: Fetched, tolerance: float) -> Checked:
    """Compare the closes of common days; a relative difference above ``tolerance`` is a disagreement."""
    left, right = read_closes(first), read_closes(second)
    common = sorted(left.keys() & right.keys())
    found = []
    for day in common:
        # A close of zero (a suspended security) must not divide by zero.
        relative = abs(right[day] - left[day]) / max(abs(left[day]), 1e-12)
        if relative > tolerance:
            found.append(Disagreement(day, left[day], right[day], relative))
    return Checked(first, second, len(common), len(left) - len(common), len(right) - len(common), tuple(found))


def read_closes(fetched: Fetched) -> dict[date, float]:
    """Return closes by day, without nulls."""
    days = fetched.table.column("date").to_pylist()
    values = fetched.table.column("close").to_pylist()
    return {day: value for day, value in zip(days, values, strict=True) if value is not None}
