"""Lengths of training rows in tokens: their distribution, and the limit that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import InvalidField

SIDES = ("chosen_ids", "rejected_ids")


@dataclass(frozen=True)
class Lengths:
    """Distribution of the tokens of rows, and how many of all tokens carry loss."""

    rows: int
    least: int
    median: int
    p90: int
    p99: int
    most: int
    tokens: int
    learned: int

    def describe(self) -> str:
        """Return the distribution in a line."""
        share = self.learned / self.tokens if self.tokens else 0.0
        return (
            f"{self.rows:,} rows; tokens: least {self.least:,}, median {self.median:,}, 90 % up to {self.p90:,}, "
            f"99 % up to {self.p99:,}, most {self.most:,}; {share:.1%} of {self.tokens:,} carry loss"
        )


def count_tokens(row: Mapping[str, Any], where: str) -> int:
    """Return the tokens of a row, of a pair those of its longer side; raise ``InvalidField`` for a row without ids."""
    if isinstance(ids := row.get("token_ids"), list):
        return len(ids)
    prompt, sides = row.get("prompt_ids"), [row.get(side) for side in SIDES]
    if isinstance(prompt, list) and all(isinstance(side, list) for side in sides):
        # Each side of a pair is a sequence of its own behind the prompt, so that the longer one decides what fits.
        return len(prompt) + max(len(side) for side in sides if isinstance(side, list))
    raise InvalidField("token_ids", f"{where} has no token ids: export with --model")


def count_learned(row: Mapping[str, Any]) -> int:
    """Return the tokens of a row that carry loss."""
    if "loss_mask" in row:
        return sum(row["loss_mask"])
    # Of the longer side, as its tokens are counted, so that the share of loss cannot exceed the whole.
    return max(len(row[side]) for side in SIDES)


def measure(rows: Sequence[Mapping[str, Any]], where: str = "rows") -> Lengths:
    """Return the distribution; zeros without rows."""
    counts = sorted(count_tokens(row, f"{where}[{place}]") for place, row in enumerate(rows))
    if not counts:
        return Lengths(0, 0, 0, 0, 0, 0, 0, 0)
    # Lengths of rows without interpolation: one that no row has would help nobody to set a limit.
    median, p90, p99 = (counts[min(len(counts) - 1, int(share * len(counts)))] for share in (0.5, 0.9, 0.99))
    learned = sum(count_learned(row) for row in rows)
    return Lengths(len(counts), counts[0], median, p90, p99, counts[-1], sum(counts), learned)
