"""Do two vendors say the same price? Where they do not, both stay and the day is flagged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from services.datafetch.connectors.base import Fetched


@dataclass(frozen=True)
class Disagreement:
    """A day on which two closes differ by ``relative`` of the first."""

    day: date
    first: float
    second: float
    relative: float


@dataclass(frozen=True)
class Checked:
    """Both answers, unchanged. ``compared`` days are in both; ``only_first`` and ``only_second`` count the others."""

    first: Fetched
    second: Fetched
    compared: int
    only_first: int
    only_second: int
    disagreements: tuple[Disagreement, ...]

    @property
    def agree(self) -> bool:
        """True when at least one day was compared and none differs."""
        return self.compared > 0 and not self.disagreements

    @property
    def scale(self) -> float | None:
        """The factor between the two when all days that differ differ alike: shares or currencies mixed up."""
        ratios = [item.second / item.first for item in self.disagreements]
        if len(ratios) < 2 or min(ratios) <= 0 or max(ratios) > min(ratios) * 1.01:
            return None
        return sum(ratios) / len(ratios)


def compare(first: Fetched, second: Fetched, tolerance: float) -> Checked:
    """Closes of the same days; a relative difference above ``tolerance`` is a disagreement."""
    left, right = closes(first), closes(second)
    common = sorted(left.keys() & right.keys())
    found = []
    for day in common:
        relative = abs(right[day] - left[day]) / max(abs(left[day]), 1e-12)
        if relative > tolerance:
            found.append(Disagreement(day, left[day], right[day], relative))
    return Checked(first, second, len(common), len(left) - len(common), len(right) - len(common), tuple(found))


def closes(fetched: Fetched) -> dict[date, float]:
    """Closes by day, without nulls."""
    days = fetched.table.column("date").to_pylist()
    values = fetched.table.column("close").to_pylist()
    return {day: value for day, value in zip(days, values, strict=True) if value is not None}
