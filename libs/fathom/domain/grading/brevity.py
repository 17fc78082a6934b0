"""Length reward for short thinking, after Kimi k1.5 (arXiv 2501.12599, section 2.3.3)."""

from __future__ import annotations


def brevity(length: float, right: bool, *, target: float, most: float) -> float:
    """Return a reward in [-0.5, 0.5]: 0.5 up to ``target`` tokens, falling linearly to -0.5 at ``most``.

    A wrong answer gets at most 0.
    """
    share = (length - target) / (most - target) if most > target else float(length > target)
    value = 0.5 - min(1.0, max(0.0, share))
    # A wrong answer is never paid for being short; otherwise no answer at all would score best.
    return value if right else min(0.0, value)
