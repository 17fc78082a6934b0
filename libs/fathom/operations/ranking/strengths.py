"""Strengths of contestants by the model of Bradley and Terry (1952), with intervals."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.domain.intervals import SAMPLES, find_interval
from fathom.operations.ranking.matches import Match

# On Elo's scale, where 400 points are odds of ten to one; the mean of all contestants is 0.
SCALE = 400.0
# Half a win for each side of each pair that met: whoever won always would have no finite strength.
PRIOR = 0.5
STEPS, CLOSE = 1_000, 1e-9

Table = Mapping[tuple[str, str], float]
"""Scores of the first contestant against the second."""


@dataclass(frozen=True)
class Standing:
    """A contestant's strength with its interval, and its score in all its matches."""

    name: str
    strength: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int

    @property
    def share(self) -> float:
        """Return the share of points, a tie being half a point."""
        return (self.wins + self.ties / 2) / max(1, self.wins + self.ties + self.losses)


def rank(matches: Sequence[Match], *, samples: int = SAMPLES, seed: int = 0) -> list[Standing]:
    """Return the contestants, the strongest first.

    Intervals are percentiles of 95 % over bootstrap samples of whole questions (Efron 1979): the matches of a question
    have an answer in common and are no independent evidence.
    """
    names = sorted({name for match in matches for name in (match.left, match.right)})
    strengths = fit_strengths(names, [tabulate(matches)])
    # Tables are made once per question: a sample then adds tables in place of counting matches again.
    by_question: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        by_question[match.question].append(match)
    tables = [tabulate(of_question) for of_question in by_question.values()]
    draws = random.Random(seed)  # noqa: S311 - draws that can be repeated
    drawn = [fit_strengths(names, draws.choices(tables, k=len(tables))) for _ in range(samples if tables else 0)]
    found = []
    for name in names:
        low, high = find_interval([one[name] for one in drawn]) if drawn else (strengths[name], strengths[name])
        found.append(Standing(name, strengths[name], low, high, *count_outcomes(name, matches)))
    return sorted(found, key=lambda one: (-one.strength, one.name))


def fit_strengths(names: Sequence[str], tables: Sequence[Table]) -> dict[str, float]:
    """Return the strengths of largest likelihood, by the iteration of Hunter (2004, section 3)."""
    points: dict[tuple[str, str], float] = defaultdict(float)
    for table in tables:
        for pair, score in table.items():
            points[pair] += score
    # Also in each bootstrap sample, or one without a loss would have no finite strength and no interval.
    for one, other in list(points):
        points[one, other] += PRIOR
    met = {name: [other for other in names if (name, other) in points] for name in names}
    value = dict.fromkeys(names, 1.0)
    won = {name: sum(points[name, other] for other in met[name]) for name in names}
    for _ in range(STEPS):
        fresh = {}
        for name in names:
            weight = sum((points[name, o] + points[o, name]) / (value[name] + value[o]) for o in met[name])
            # In a sample of a few questions somebody may not have played at all.
            fresh[name] = won[name] / weight if weight else 1.0
        # Strengths are ratios: their geometric mean is kept at one.
        middle = math.exp(sum(map(math.log, fresh.values())) / max(1, len(fresh)))
        fresh = {name: one / middle for name, one in fresh.items()}
        moved = max((abs(math.log(fresh[name] / value[name])) for name in names), default=0.0)
        value = fresh
        if moved < CLOSE:
            break
    return {name: SCALE * math.log10(one) for name, one in value.items()}


def tabulate(matches: Sequence[Match]) -> dict[tuple[str, str], float]:
    """Return the scores of each contestant against each other one that it met."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for match in matches:
        found[match.left, match.right] += match.score
        found[match.right, match.left] += 1.0 - match.score
    return dict(found)


def count_outcomes(name: str, matches: Sequence[Match]) -> tuple[int, int, int]:
    """Return the wins, ties and losses of a contestant."""
    scores = [
        match.score if match.left == name else 1.0 - match.score
        for match in matches
        if name in (match.left, match.right)
    ]
    return scores.count(1.0), scores.count(0.5), scores.count(0.0)
