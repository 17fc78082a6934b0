"""Batches without padding: texts sorted by length, split among workers, those of equal length side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

# Maximum tokens of one forward pass; bounds memory.
TOKENS_TOGETHER = 8_192
# Minimum tokens per worker; with fewer, fewer workers are used.
LEAST_TOKENS = 64

Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Stretch:
    """``count`` texts of ``length`` tokens each, starting at row ``start`` of the matrix."""

    start: int
    count: int
    length: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.count * self.length)


def split_rows(rows: Rows, workers: int) -> list[list[int]]:
    """Split positions, sorted by length, into parts of about equal token counts, none too large for memory."""
    total = sum(len(row) for row in rows)
    count = max(1, min(workers, total // LEAST_TOKENS), -(-total // TOKENS_TOGETHER))
    parts: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for at in sorted(range(len(rows)), key=lambda at: len(rows[at])):
        parts[(2 * before + len(rows[at])) * count // (2 * total)].append(at)
        before += len(rows[at])
    return [part for part in parts if part]


def group_by_length(rows: Rows) -> Iterator[Stretch]:
    """Yield runs of texts of equal length."""
    start = 0
    for length, run in groupby(len(row) for row in rows):
        count = sum(1 for _ in run)
        yield Stretch(start, count, length)
        start += count * length
