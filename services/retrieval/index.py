"""BM25 over token lists, in memory. Imported when the service starts: numpy and bm25s are an extra.

Lucene's variant with k1 1.5 and b 0.75 (bm25s' defaults; Kamphuis et al. 2020). Document frequencies are those of
the whole corpus, so scores do not depend on a filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from services.retrieval.text import is_single_character


class Index:
    """Read-only after construction, so that any number of threads may search."""

    def __init__(self, corpus: Sequence[Sequence[str]]) -> None:
        self._bm25: Any = bm25s.BM25()
        self._bm25.index([list(terms) for terms in corpus], show_progress=False)

    def best(self, terms: Sequence[str], weights: NDArray[np.float32], top_k: int) -> list[tuple[int, float]]:
        """Positions and scores, best first, only of documents that share a term and have a weight over 0.

        ``weights`` [documents] multiplies the scores before ranking: 0 hides a document. Ties keep corpus order.
        """
        known = [word for term in terms for word in self._expanded(term)]
        if not known:
            return []
        scores = self._bm25.get_scores(known, weight_mask=weights)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [(int(position), float(scores[position])) for position in order if scores[position] > 0]

    def _expanded(self, term: str) -> list[str]:
        """The term when the corpus has it; a lone Chinese character stands for all bigrams that hold it."""
        vocabulary: dict[str, int] = self._bm25.vocab_dict
        if is_single_character(term):
            return [word for word in vocabulary if term in word]
        return [term] if term in vocabulary else []
