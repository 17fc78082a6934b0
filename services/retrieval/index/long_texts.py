"""Choose the part of a long text that is summarised, and keep the terms of texts that are found again."""

from __future__ import annotations

import threading
from collections.abc import Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.core.cache import BoundedCache
from fathom.services.retrieval.index.text import PART_CHARS, find_part, tokenise

# The terms of 300,000 letters are 0.6 MB. An hour after its last reading a text may be of a deleted corpus.
MAX_TEXTS, MAX_BYTES, TTL_S = 10_000, 64 << 20, 3_600.0
# What an entry costs beside its arrays.
ENTRY_BYTES = 200


class PartTerms(NamedTuple):
    """The terms of a text's parts, each pair of term and part once, in the order of the terms."""

    hashes: NDArray[np.int64]
    parts: NDArray[np.int32]

    @property
    def size_bytes(self) -> int:
        """Return the memory of the arrays."""
        return self.hashes.nbytes + self.parts.nbytes

    def find_best(self, query: Set[str]) -> int:
        """Return the number of the part with most of the query's terms, the first of equals."""
        wanted = np.fromiter(map(hash, query), np.int64, len(query))
        first, last = (np.searchsorted(self.hashes, wanted, side) for side in ("left", "right"))
        found = [self.parts[start:end] for start, end in zip(first, last, strict=True)]
        return int(np.bincount(np.concatenate(found)).argmax()) if any(map(len, found)) else 0


def split_parts(text: str) -> PartTerms:
    """Return the terms of each part of ``PART_CHARS`` characters."""
    terms = [set(tokenise(text[start : start + PART_CHARS])) for start in range(0, len(text), PART_CHARS)]
    hashes = np.fromiter((hash(term) for part in terms for term in part), np.int64)
    parts = np.repeat(np.arange(len(terms), dtype=np.int32), [len(part) for part in terms])
    order = np.argsort(hashes, kind="stable")
    return PartTerms(hashes[order], parts[order])


class PartFinder:
    """Finds the best part of long texts; thread-safe.

    Looking for a query's terms in 300,000 letters takes 25 ms at each search; splitting them into terms takes 100 ms
    once, after which a search takes less than one. So a text is split when it is found for the second time.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._known: BoundedCache[int, PartTerms] = BoundedCache(
            max_entries=MAX_TEXTS, max_bytes=max_bytes, ttl_s=TTL_S
        )
        self._seen: BoundedCache[int, bool] = BoundedCache(max_entries=MAX_TEXTS, max_bytes=max_bytes, ttl_s=TTL_S)
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Return the memory of the terms that are kept."""
        return self._known.size_bytes

    def find(self, text: str, query: Set[str]) -> int:
        """Return where the part with most of the query's terms begins."""
        # Texts with the same hash would only have a worse part chosen: its words are the text's own.
        key = hash(text)
        with self._lock:
            terms, is_new = self._known.get(key), self._seen.get(key) is None
            self._seen.put(key, True, ENTRY_BYTES)
        if terms is None and is_new:
            return find_part(text, query)
        if terms is None:
            terms = split_parts(text)
            with self._lock:
                self._known.put(key, terms, terms.size_bytes + ENTRY_BYTES)
        return terms.find_best(query) * PART_CHARS
