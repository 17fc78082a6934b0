"""Rewards of short thinking (row Z06): the length reward of Kimi k1.5, arXiv 2501.12599, section 2.3.3."""

from __future__ import annotations

from collections.abc import Sequence


def brevity(length: float, right: bool, *, target: float, most: float) -> float:
    """In [-0.5, 0.5]: 0.5 up to ``target`` tokens, falling to -0.5 at ``most``; a wrong answer gets at most 0.

    A wrong answer is never paid for being short: else the shortest would be no answer at all.
    """
    share = (length - target) / (most - target) if most > target else float(length > target)
    value = 0.5 - min(1.0, max(0.0, share))
    return value if right else min(0.0, value)


def group_brevity(lengths: Sequence[float], right: Sequence[bool]) -> list[float]:
    """The same with the group's own shortest and longest response as bounds; 0 for all when they are equally long.

    ``lengths`` in tokens and ``right`` of the responses to one prompt. Source: eq. 4 there.
    """
    low, high = min(lengths), max(lengths)
    if low == high:
        return [0.0] * len(lengths)
    return [brevity(length, good, target=low, most=high) for length, good in zip(lengths, right, strict=True)]
