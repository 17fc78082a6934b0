"""The words of one segment of a corpus: which documents hold which term, and how often.

Nothing in it depends on other segments: rarity and mean length, which do, are computed when a query comes. So segments
are written once, and joined without reading a text again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.services.retrieval.documents.model import hash64
from fathom.services.retrieval.index.arrays import map_arrays, write_arrays
from fathom.services.retrieval.index.text import IS_CJK

# Documents whose tokens are held at once while an index is built: some 5 million numbers.
COUNTED_TOGETHER = 32_768


@dataclass(frozen=True)
class Postings:
    """The terms of a segment, by the 64-bit key of each, and the documents that hold them; read-only.

    Of two terms with one key, which a corpus of a million terms has with a chance of one to 30 million, the documents
    are counted together.
    """

    keys: NDArray[np.uint64]
    """Keys of the terms [terms], ascending."""
    starts: NDArray[np.int64]
    """Beginning of the documents of each term [terms + 1]."""
    character_keys: NDArray[np.uint64]
    """Keys of the terms that are made of one or two Chinese characters [bigrams], ascending."""
    characters: NDArray[np.int32]
    """The code points of those terms [bigrams, 2]; 0 where there is only one."""
    lengths: NDArray[np.int32]
    """The number of tokens of each document [documents]."""
    documents: NDArray[np.int32]
    """Positions of documents within the segment [postings], ascending for each term."""
    counts: NDArray[Any]
    """Frequency of the term in each of them [postings], in the smallest unsigned type that can say so."""

    def find(self, key: int) -> tuple[int, int]:
        """Return where the documents of a term begin and end; equal when it is unknown."""
        at = int(np.searchsorted(self.keys, np.uint64(key)))
        if at == len(self.keys) or int(self.keys[at]) != key:
            return 0, 0
        return int(self.starts[at]), int(self.starts[at + 1])

    def find_terms_with(self, character: str) -> NDArray[np.uint64]:
        """Return the keys of the terms that contain a Chinese character."""
        found: NDArray[np.uint64] = self.character_keys[(self.characters == ord(character)).any(axis=1)]
        return found

    def save(self, path: Path) -> None:
        """Write the file that ``load_postings`` opens."""
        write_arrays(path, [getattr(self, field.name) for field in fields(self)])


def load_postings(path: Path, count: int) -> Postings:
    """Open a saved segment of ``count`` documents memory-mapped; raise ``CorruptData`` naming the file."""
    opened = Postings(*map_arrays(path, len(fields(Postings))))
    if len(opened.lengths) != count or len(opened.starts) != len(opened.keys) + 1:
        raise CorruptData(str(path), f"has the words of {len(opened.lengths):,} documents, not of {count:,}")
    return opened


def build_postings(corpus: Iterable[Sequence[str]]) -> Postings:
    """Count the terms of token lists; those of ``COUNTED_TOGETHER`` documents are held at once."""
    rows = iter(corpus)
    return merge_postings([count_terms(part) for part in iter(lambda: list(islice(rows, COUNTED_TOGETHER)), [])])


def count_terms(corpus: Sequence[Sequence[str]]) -> Postings:
    """Count the terms of some documents."""
    vocabulary: dict[str, int] = {}
    # Numbers instead of strings, 4 bytes each.
    tokens = array("i", (vocabulary.setdefault(term, len(vocabulary)) for terms in corpus for term in terms))
    lengths = np.fromiter(map(len, corpus), np.int32, len(corpus))
    hashed = np.fromiter(map(hash64, vocabulary), np.uint64, len(vocabulary))
    keys, ranks = np.unique(hashed, return_inverse=True)
    places = ranks.astype(np.int64)[np.array(tokens, np.int32)] * len(corpus)
    places += np.repeat(np.arange(len(corpus)), lengths)
    found, counts = np.unique(places, return_counts=True)
    starts = np.searchsorted(found, np.arange(len(keys) + 1) * max(len(corpus), 1))
    characters = dict(list_characters(vocabulary, hashed.tolist()))
    ordered = sorted(characters)
    return Postings(
        keys,
        starts.astype(np.int64),
        np.array(ordered, np.uint64),
        np.array([characters[key] for key in ordered], np.int32).reshape(-1, 2),
        lengths,
        (found % max(len(corpus), 1)).astype(np.int32),
        shrink(counts),
    )


def list_characters(terms: Iterable[str], keys: Iterable[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the key and the code points of each term of one or two Chinese characters."""
    for term, key in zip(terms, keys, strict=True):
        if len(term) <= 2 and IS_CJK.match(term):
            yield key, (ord(term[0]), ord(term[1]) if len(term) == 2 else 0)


def shrink(counts: NDArray[Any]) -> NDArray[Any]:
    """Return the counts in the smallest unsigned type that holds them; most segments need a byte."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def merge_postings(parts: Sequence[Postings]) -> Postings:
    """Join segments that follow one another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return count_terms(())
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    places = [np.searchsorted(keys, part.keys) for part in parts]
    sizes = np.zeros(len(keys), np.int64)
    for part, at in zip(parts, places, strict=True):
        sizes[at] += np.diff(part.starts)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    documents = np.empty(starts[-1], np.int32)
    counts = np.empty(starts[-1], max((part.counts.dtype for part in parts), key=lambda kind: kind.itemsize))
    # Segment by segment, so that the documents of each term stay in their order.
    filled, first = starts[:-1].copy(), 0
    for part, at in zip(parts, places, strict=True):
        held = np.diff(part.starts)
        targets = np.repeat(filled[at] - part.starts[:-1], held) + np.arange(len(part.documents))
        documents[targets], counts[targets] = part.documents + first, part.counts
        filled[at] += held
        first += len(part.lengths)
    character_keys, chosen = np.unique(np.concatenate([part.character_keys for part in parts]), return_index=True)
    characters = np.concatenate([part.characters for part in parts])[chosen]
    lengths = np.concatenate([part.lengths for part in parts])
    return Postings(keys, starts, character_keys, characters, lengths, documents, counts)
