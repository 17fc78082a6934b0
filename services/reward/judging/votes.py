"""Aggregation of votes to a judgement: both orders have equal weight, and position bias is measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from fathom.services.reward.judging.settings import JudgeSettings


class Grade(IntEnum):
    """Grade of the left answer; numbers as in the contract."""

    NOT_JUDGED = 0
    BAD = 1
    RATHER_BAD = 2
    EVEN = 3
    RATHER_GOOD = 4
    GOOD = 5


@dataclass(frozen=True)
class Vote:
    """One vote: the left answer's ``margin`` in [-1, 1], None for a reply that failed or was unreadable.

    Where answers are shown alone, it is the score of the one that was shown, with a minus for the right one.
    """

    left_first: bool
    margin: float | None
    reason: str = ""


@dataclass(frozen=True)
class Judgement:
    """Result of a pair's votes; ``margin`` is their mean."""

    grade: Grade
    reason: str
    margin: float = 0.0
    votes: int = 0
    failed: int = 0
    position_bias: float = 0.0
    consistent: bool = False


def aggregate_votes(votes: Sequence[Vote], settings: JudgeSettings) -> Judgement:
    """Aggregate the votes; without a vote in each order the result is NOT_JUDGED."""
    read = [(vote, vote.margin) for vote in votes if vote.margin is not None]
    failed = len(votes) - len(read)
    # Position bias could not be told from preference.
    if len({vote.left_first for vote, _ in read}) < 2:
        missing = next((vote.reason for vote in votes if vote.margin is None), "")
        return Judgement(Grade.NOT_JUDGED, f"no vote in each order: {missing}", failed=failed, votes=len(read))
    # Orders count alike, also where one has lost a vote.
    orders = [[margin for vote, margin in read if vote.left_first is first] for first in (True, False)]
    mean = sum(sum(margins) / len(margins) for margins in orders) / 2
    signs = [find_winner(margin, settings.even_margin) for _, margin in read]
    # 1 when the first answer wins in every order, 0 when the order makes no difference.
    bias = sum(one if vote.left_first else -one for one, (vote, _) in zip(signs, read, strict=True)) / len(read)
    consistent = len(set(signs)) == 1
    # Of the vote nearest to the mean, which explains the result best.
    reason = min(read, key=lambda one: abs(one[1] - mean))[0].reason
    if not consistent:
        grade = Grade.EVEN if settings.inconsistent == "neutral" else Grade.RATHER_BAD
        return Judgement(grade, f"votes disagree; {reason}", mean, len(read), failed, bias)
    return Judgement(choose_grade(mean, signs[0], settings), reason, mean, len(read), failed, bias, True)


def aggregate_scores(votes: Sequence[Vote], settings: JudgeSettings) -> Judgement:
    """Aggregate scores of answers that were shown alone; without a score of each the result is NOT_JUDGED."""
    left, right = (
        [(vote.margin, vote.reason) for vote in votes if vote.margin is not None and vote.left_first is side]
        for side in (True, False)
    )
    read, failed = len(left) + len(right), len(votes) - len(left) - len(right)
    if not left or not right:
        missing = next((vote.reason for vote in votes if vote.margin is None), "")
        return Judgement(Grade.NOT_JUDGED, f"no score of each answer: {missing}", failed=failed, votes=read)
    # The right ones are negative, so that a sum is a difference.
    margin = sum(sum(score for score, _ in side) / len(side) for side in (left, right))
    signs = {find_winner(one + other, settings.even_margin) for one, _ in left for other, _ in right}
    reason = f"left: {left[0][1]} / right: {right[0][1]}"
    # Scores that are drawn scatter: their mean decides, and that single ones disagree is only reported.
    grade = choose_grade(margin, find_winner(margin, settings.even_margin), settings)
    return Judgement(grade, reason, margin, read, failed, consistent=len(signs) == 1)


def find_winner(margin: float, even: float) -> int:
    """Return the winner: 1 the left, -1 the right, 0 neither."""
    return 0 if abs(margin) <= even else (1 if margin > 0 else -1)


def choose_grade(margin: float, winner: int, settings: JudgeSettings) -> Grade:
    """Return the grade, one of five, of votes that agree."""
    if winner == 0:
        return Grade.EVEN
    clear = abs(margin) >= settings.clear_margin
    if winner > 0:
        return Grade.GOOD if clear else Grade.RATHER_GOOD
    return Grade.BAD if clear else Grade.RATHER_BAD
