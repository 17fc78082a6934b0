"""Win rate of a candidate with its confidence interval, and the decision that follows from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

# Two-sided 95 % of the normal distribution.
Z = 1.959963984540054
# Chance of deciding wrongly, over all looks together.
ERROR = 0.05


class Outcome(StrEnum):
    """Outcome of one mirrored question for the candidate; ``FAILED`` says nothing of it."""

    WIN = "win"
    TIE = "tie"
    LOSS = "loss"
    FAILED = "failed"


class Decision(StrEnum):
    """Decision of the gate on a candidate."""

    PROMOTE = "promote"
    REJECT = "reject"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Gate:
    """Rule of promotion: the whole interval of the win rate lies above ``threshold``, over ``least`` decided questions.

    With a threshold of 0.5 the candidate must be better; a lower one asks only that it is not worse by that much.
    """

    threshold: float = 0.5
    least: int = 30


@dataclass(frozen=True)
class Verdict:
    """Counts of outcomes, the win rate among the decided ones with its interval, and the decision."""

    wins: int
    ties: int
    losses: int
    failed: int
    rate: float
    low: float
    high: float
    decision: Decision


def wilson(wins: int, count: int, z: float = Z) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (1927), which holds for few and for one-sided outcomes too.

    [p + z²/2n ± z √(p(1-p)/n + z²/4n²)] / (1 + z²/n); (0, 1) for no outcome.
    """
    if not count:
        return 0.0, 1.0
    share, spread = wins / count, z * z / count
    middle = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    # At either end the formula gives that end exactly, but for the rounding of the root.
    low = (middle - half) / (1 + spread) if wins else 0.0
    high = (middle + half) / (1 + spread) if wins < count else 1.0
    return low, high


def judge(outcomes: Sequence[Outcome], gate: Gate, z: float = Z) -> Verdict:
    """Return what the outcomes say of the candidate, by an interval of ``z`` standard deviations.

    Ties are shown and decide nothing: they say that the models do not differ there, not which one is better.
    """
    counts = Counter(outcomes)
    wins, losses = counts[Outcome.WIN], counts[Outcome.LOSS]
    decided = wins + losses
    low, high = wilson(wins, decided, z)
    decision = Decision.UNDECIDED
    if decided >= gate.least:
        decision = (
            Decision.PROMOTE
            if low > gate.threshold
            else Decision.REJECT
            if high < gate.threshold
            else Decision.UNDECIDED
        )
    rate = wins / decided if decided else 0.0
    return Verdict(wins, counts[Outcome.TIE], losses, counts[Outcome.FAILED], rate, low, high, decision)


def judge_as_they_come(outcomes: Sequence[Outcome], gate: Gate) -> Verdict:
    """Return what outcomes say that are judged again and again while they come: the first look that decides stands.

    A 95 % interval that is looked at after each outcome excludes the truth at some time far more often than in 5 % of
    all experiments. So it is looked at when ``least`` are decided, when twice as many are, and so on, each time with
    half the chance of error of the time before, the first with half of all.
    """
    decided = [position for position, outcome in enumerate(outcomes) if outcome in (Outcome.WIN, Outcome.LOSS)]
    count, error = gate.least, ERROR / 2
    while count <= len(decided):
        z = NormalDist().inv_cdf(1 - error / 2)
        verdict = judge(outcomes[: decided[count - 1] + 1], gate, z)
        if verdict.decision is not Decision.UNDECIDED:
            return verdict
        count, error = 2 * count, error / 2
    return replace(judge(outcomes, gate), decision=Decision.UNDECIDED)
