"""BM25 over words and Chinese bigrams. numpy and bm25s are an extra: imported when the service starts.

Lucene's variant with its k1 1.2 and b 0.75 (Kamphuis et al. 2020). Document frequencies are those of the whole corpus,
so scores do not depend on a filter.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.services.retrieval.index.text import is_single_character

K1, B = 1.2, 0.75
FOLDER = "bm25"
FILES = ("data.csc.index.npy", "indices.csc.index.npy", "indptr.csc.index.npy", "vocab.index.json", "params.index.json")


class LexicalIndex:
    """BM25 index; read-only after construction, so thread-safe."""

    def __init__(self, bm25: Any) -> None:
        self._bm25 = bm25
        self._vocabulary: dict[str, int] = bm25.vocab_dict

    @classmethod
    def build(cls, corpus: Iterable[Sequence[str]]) -> LexicalIndex:
        """Index token lists. Tokens are held as numbers, 4 bytes each, until the index is complete."""
        vocabulary: dict[str, int] = {}
        # Numbers instead of strings: a million documents' tokens would not fit memory as Python objects.
        rows = [array("i", [vocabulary.setdefault(term, len(vocabulary)) for term in terms]) for terms in corpus]
        bm25 = bm25s.BM25(k1=K1, b=B)
        bm25.index((rows, vocabulary), show_progress=False)
        return cls(bm25)

    def save(self, folder: Path) -> None:
        """Write ``FILES`` into ``folder/bm25``."""
        self._bm25.save(folder / FOLDER, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> LexicalIndex:
        """Open a saved index memory-mapped; raise ``CorruptData`` naming the folder."""
        try:
            return cls(bm25s.BM25.load(folder / FOLDER, mmap=True, show_progress=False))
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise CorruptData(str(folder / FOLDER), f"{type(error).__name__} {error}") from error

    def compute_scores(self, terms: Sequence[str]) -> NDArray[np.float32] | None:
        """Return scores [documents]; None when no term is known. A term that occurs twice counts twice."""
        known = [self._vocabulary[term] for term in terms if term and term in self._vocabulary]
        if not any(not is_single_character(term) for term in terms):
            known = [at for term in terms for at in self._find_terms_with(term)]
        if not known:
            return None
        found: NDArray[np.float32] = self._bm25.get_scores_from_ids(known)
        return found

    def _find_terms_with(self, character: str) -> list[int]:
        """Return the terms that contain a character, for queries of lone Chinese characters only."""
        # Beside other words this would add more noise than signal: 2 points less nDCG@10 on Chinese questions.
        return [at for word, at in self._vocabulary.items() if character in word]


def select_best(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return positions of the ``count`` highest scores over 0, best first; ties keep corpus order."""
    if count < len(scores):
        # Partial selection first: sorting a million scores for ten results would cost more than computing them.
        threshold = max(float(np.partition(scores, len(scores) - count)[len(scores) - count]), 0.0)
        found = np.flatnonzero(scores >= threshold) if threshold > 0 else np.flatnonzero(scores > 0)
    else:
        found = np.flatnonzero(scores > 0)
    order = np.argsort(-scores[found], kind="stable")[:count]
    return found[order].astype(np.int64)
