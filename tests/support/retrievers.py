"""Search-R1's retriever interface over the service's indexes, in this process and without a service.

The service itself adds filters, weights, reranking and snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import InvalidField
from fathom.domain.encoders.base import Encoder
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.index.lexical import LexicalIndex, select_best
from fathom.services.retrieval.index.text import tokenise

Item = dict[str, str]
"""``{"id": …, "contents": …}``; the first line of the contents is the quoted title."""
Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
PASSAGES = 512


class Index(Protocol):
    """An index that ranks documents."""

    def rank(self, queries: Sequence[str], count: int) -> list[Ranked]:
        """Return per query positions of at most ``count`` documents and their scores, best first."""
        ...


class BaseRetriever:
    """Documents and an index over them; ``topk`` is the default number of results."""

    def __init__(self, documents: Sequence[Document], index: Index, topk: int = 3) -> None:
        """Create the retriever; raise ``InvalidField("topk")`` below 1."""
        self.documents, self.index, self.topk = documents, index, check_count("topk", topk)

    def search(self, query: str, num: int | None = None, return_score: bool = False) -> Any:
        """Return the best ``num`` documents; with ``return_score`` (documents, scores), both in that order.

        Fewer when fewer match. Raises ``InvalidField("num")`` below 1.
        """
        [found], [scores] = self.batch_search([query], num, return_score=True)
        return (found, scores) if return_score else found

    def batch_search(self, queries: Sequence[str], num: int | None = None, return_score: bool = False) -> Any:
        """Search for several queries in one pass; see ``search``."""
        ranked = self.index.rank(queries, check_count("num", self.topk if num is None else num)) if queries else []
        found = [[self._item(int(at)) for at in positions] for positions, _ in ranked]
        scores = [[float(score) for score in values] for _, values in ranked]
        return (found, scores) if return_score else found

    def _item(self, at: int) -> Item:
        document = self.documents[at]
        return {"id": document.id, "contents": document.contents}


class BM25Retriever(BaseRetriever):
    """Words and Chinese bigrams by Lucene's variant of BM25; needs no Java."""

    def __init__(self, documents: Sequence[Document], topk: int = 3) -> None:
        super().__init__(documents, Words(documents), topk)


class DenseRetriever(BaseRetriever):
    """Exact inner products of an encoder's vectors; queries and passages get the prefixes of the encoder's family.

    ``fathom.domain.encoders.Encoders`` creates encoders by name or folder, with query length limit and half precision.
    """

    def __init__(self, documents: Sequence[Document], encoder: Encoder, topk: int = 3) -> None:
        super().__init__(documents, Vectors(documents, encoder), topk)


class Words:
    """BM25 over whole documents."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._lexical = LexicalIndex.build(tokenise(document.contents) for document in documents)

    def rank(self, queries: Sequence[str], count: int) -> list[Ranked]:
        """Rank by BM25; documents without any of the words are left out."""
        return [self._rank_one(query, count) for query in queries]

    def _rank_one(self, query: str, count: int) -> Ranked:
        scores = self._lexical.compute_scores(tokenise(query))
        if scores is None:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        positions = select_best(scores, count)
        return positions, scores[positions]


class Vectors:
    """A flat index of inner products."""

    def __init__(self, documents: Sequence[Document], encoder: Encoder) -> None:
        from fathom.services.retrieval.index.dense import DenseIndex, make_empty

        index = make_empty("flat", len(documents), encoder.dim)
        for start in range(0, len(documents), PASSAGES):
            texts = [document.contents for document in documents[start : start + PASSAGES]]
            index.add(np.ascontiguousarray(encoder.encode(texts, "passage")))
        self._dense, self._encoder = DenseIndex(index, encoder.name), encoder

    def rank(self, queries: Sequence[str], count: int) -> list[Ranked]:
        """Rank by inner product; ties keep corpus order."""
        return self._dense.search(self._encoder.encode(queries, "query"), count)


def check_count(name: str, count: int) -> int:
    """Return the count; raise ``InvalidField`` below 1."""
    if count < 1:
        raise InvalidField(name, f"is {count}, must be at least 1")
    return count
