"""Support of passages by the rest of their file.

A passage of a filing names neither the company nor the year that it is about: that is said elsewhere in the file. So a
passage that holds words of a query is lifted by how often its whole file uses them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# What the file with the most frequent words of a query adds to its passages, as a share of the best score. On 34 annual
# filings 0.25 to 1 are within a point of nDCG@10 of each other.
SUPPORT = 0.5
# Terms of the average text that are counted with each file, so that the rates of a short one are not by chance.
ASSUMED_TERMS = 1_000


@dataclass(frozen=True)
class Sources:
    """The files of a corpus; documents of none count as one file together."""

    numbers: NDArray[np.int32]
    """Number of each document's file [documents]."""
    lengths: NDArray[np.float64]
    """Terms of each file [files]."""

    def add_support(self, scores: NDArray[np.float32], weights: NDArray[np.float32]) -> None:
        """Add to each score over 0 what the document's file supports it with.

        ``weights`` [documents] are the sums of the query's terms, each as often as it occurs and by its rarity.
        """
        found = np.flatnonzero(scores > 0)
        if not len(found):
            return
        sums = np.bincount(self.numbers, weights, len(self.lengths))
        usual = sums.sum() / max(self.lengths.sum(), 1.0)
        rates = ((sums + ASSUMED_TERMS * usual) / (self.lengths + ASSUMED_TERMS))[self.numbers[found]]
        scores[found] += (SUPPORT * float(scores.max()) / float(rates.max()) * rates).astype(np.float32)


def group_sources(keys: NDArray[np.uint64], lengths: NDArray[np.int32]) -> Sources | None:
    """Return the files of documents with these keys, 0 for none; None when no file has several documents."""
    names, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
    if not (counts[names != 0] > 1).any():
        return None
    return Sources(numbers.astype(np.int32), np.bincount(numbers, lengths, len(names)).astype(np.float64))
