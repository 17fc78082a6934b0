"""Scores of a stage's answers, and a test whether two stages differ by more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]
# The 97.5 % quantile of the standard normal distribution: 95 % lie within it on both sides.
Z = 1.96


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    # Unlike the normal approximation it stays within 0 and 1, also for shares near them and few questions.
    share, square = right / count, Z * Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = Z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, round(middle - half, 3)), min(1.0, round(middle + half, 3))


def summarise_stage(rows: Rows) -> dict[str, Any]:
    """Return means over the questions; EM with its interval."""
    right = sum(row["em"] == 1.0 for row in rows)
    mean = {name: round(sum(row[name] for row in rows) / len(rows), 3) for name in ("em", "sub_em", "f1", "searches")}
    return {"questions": len(rows), **mean, "em_95": wilson(right, len(rows))}


def compare_stages(before: Rows, after: Rows) -> dict[str, Any]:
    """Compare EM on the same questions: the numbers won and lost, and the exact sign test's two-sided p."""
    earlier = {row["id"]: row["em"] for row in before}
    changes = [row["em"] - earlier[row["id"]] for row in after if row["id"] in earlier]
    won, lost = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    count = won + lost
    tail = sum(math.comb(count, k) for k in range(max(won, lost), count + 1)) / 2**count
    return {"em": round(sum(changes) / len(changes), 3), "won": won, "lost": lost, "p": round(min(1.0, 2 * tail), 3)}
