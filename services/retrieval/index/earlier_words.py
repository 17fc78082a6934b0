"""Word indexes of snapshots of earlier releases: one of the whole corpus, made by bm25s; read and not written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.services.retrieval.index.text import is_single_character

FOLDER = "bm25"


class EarlierWords:
    """BM25 of a whole corpus; read-only, so thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Open a saved index memory-mapped; raise ``CorruptData`` naming the folder."""
        try:
            self._bm25: Any = bm25s.BM25.load(folder / FOLDER, mmap=True, show_progress=False)
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise CorruptData(str(folder / FOLDER), f"{type(error).__name__} {error}") from error
        self._vocabulary: dict[str, int] = self._bm25.vocab_dict

    def compute_scores(self, terms: Sequence[str], mask: NDArray[np.bool_] | None = None) -> NDArray[np.float32] | None:
        """Return scores [documents], 0 outside of the mask; None when no term is known.

        A term that occurs twice counts twice.
        """
        known = [self._vocabulary[term] for term in terms if term and term in self._vocabulary]
        if not any(not is_single_character(term) for term in terms):
            known = [at for term in terms for word, at in self._vocabulary.items() if term in word]
        if not known:
            return None
        found: NDArray[np.float32] = self._bm25.get_scores_from_ids(known)
        return found if mask is None else np.where(mask, found, np.float32(0))
