"""Agreement of the judge with people, and the matches that a person has to look at again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.core.errors import InvalidField
from fathom.operations.ranking.answers import read_rows
from fathom.operations.ranking.matches import EVEN, GRADES, Match

# Grades that differ by so much are looked at again.
APART = 2

Key = tuple[str, str, str]
"""Question, left and right contestant."""


@dataclass(frozen=True)
class Compared:
    """A match with the grade of a person, for the same side."""

    match: Match
    human: int

    @property
    def is_apart(self) -> bool:
        """Return whether a person has to look at the judge's reasons again."""
        return abs(self.match.grade - self.human) >= APART


@dataclass(frozen=True)
class Agreement:
    """Rank correlation (Spearman), agreement beyond chance (Cohen's kappa), shares of pairs; None is undefined."""

    count: int
    spearman: float | None
    kappa: float | None
    same: float
    within_one: float


def read_human(path: Path) -> dict[Key, int]:
    """Return people's grades from rows with question, left, right and grade, a number of 1 to 5 or its words.

    Raises ``InvalidField`` for another row, and for one pair with two different grades: both cannot be right.
    """
    found: dict[Key, int] = {}
    for place, row in read_rows(path, "human"):
        texts = [row.get(name) for name in ("question", "left", "right")]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise InvalidField("human", f"{place} has no question, left and right")
        question, left, right = (str(text).strip() for text in texts)
        grade = read_grade(row.get("grade"))
        if grade is None:
            raise InvalidField("human", f"{place}: the grade is none of 1 to 5 or {', '.join(GRADES)}")
        if found.setdefault((question, left, right), grade) != grade:
            raise InvalidField("human", f"{place} contradicts an earlier grade of the same pair")
        # The same judgement seen from the other side, for the journal has pairs in the order of its files.
        if found.setdefault((question, right, left), 2 * EVEN - grade) != 2 * EVEN - grade:
            raise InvalidField("human", f"{place} contradicts an earlier grade of the same pair the other way round")
    return found


def read_grade(given: object) -> int | None:
    """Return a grade of 1 to 5; None for anything else."""
    text = str(given).strip().lower()
    grade = GRADES.get(text) or (int(text) if text.isdigit() else 0)
    return grade if 1 <= grade <= 5 else None


def compare(matches: Sequence[Match], human: dict[Key, int]) -> list[Compared]:
    """Return the matches that a person has graded, too."""
    graded = ((match, human.get((match.question, match.left, match.right))) for match in matches)
    return [Compared(match, grade) for match, grade in graded if grade is not None]


def measure_agreement(compared: Sequence[Compared]) -> Agreement:
    """Return how far judge and people agree."""
    judge, human = [one.match.grade for one in compared], [one.human for one in compared]
    apart = [abs(one - other) for one, other in zip(judge, human, strict=True)]
    count = max(1, len(apart))
    return Agreement(
        len(apart),
        correlate(list_ranks(judge), list_ranks(human)),
        find_kappa(judge, human),
        apart.count(0) / count,
        sum(one <= 1 for one in apart) / count,
    )


def list_ranks(values: Sequence[float]) -> list[float]:
    """Return the ranks of the values from 1; equal ones have the mean of their ranks."""
    counts, ranks, below = Counter(values), dict[float, float](), 0
    for value in sorted(counts):
        ranks[value] = below + (counts[value] + 1) / 2
        below += counts[value]
    return [ranks[value] for value in values]


def correlate(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None where one side does not vary."""
    if len(one) < 2:
        return None
    mean, mean_other = sum(one) / len(one), sum(other) / len(other)
    first, second = [value - mean for value in one], [value - mean_other for value in other]
    spread = math.sqrt(sum(value**2 for value in first) * sum(value**2 for value in second))
    return sum(a * b for a, b in zip(first, second, strict=True)) / spread if spread else None


def find_kappa(one: Sequence[int], other: Sequence[int]) -> float | None:
    """Return Cohen's kappa (1960), (p - e) / (1 - e); None where chance alone would agree always."""
    count = len(one)
    if not count:
        return None
    same = sum(a == b for a, b in zip(one, other, strict=True)) / count
    left, right = Counter(one), Counter(other)
    chance = sum(left[grade] * right[grade] for grade in left) / count**2
    return (same - chance) / (1 - chance) if chance < 1 else None
