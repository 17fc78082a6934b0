"""Search-R1's retrievers: one interface for both (SR30), BM25 by its formula (SR28), exact inner products (SR29)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fathom.encoders.base import Kind
from fathom.errors import InvalidField
from services.retrieval.corpus import Document
from services.retrieval.retrievers import BaseRetriever, BM25Retriever, DenseRetriever
from services.retrieval.text import tokens
from tests.unit.retrieval.test_lexical import TEXTS, by_formula

DOCUMENTS = [Document(f"d{at}", f"Title {at}", text, None, "", "", ()) for at, text in enumerate(TEXTS)]


class Letters:
    """Vectors by counted letters; notes what it was asked for as what."""

    name, dim = "letters", 26

    def __init__(self) -> None:
        self.kinds: list[Kind] = []

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        self.kinds.append(kind)
        counts = [[1e-3 + text.lower().count(chr(97 + letter)) for letter in range(26)] for text in texts]
        found = np.array(counts, dtype=np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(params=["bm25", "dense"])
def retriever(request: pytest.FixtureRequest) -> BaseRetriever:
    return BM25Retriever(DOCUMENTS) if request.param == "bm25" else DenseRetriever(DOCUMENTS, Letters())


def test_sr30_both_answer_alike(retriever: BaseRetriever) -> None:
    found, scores = retriever.search("gold price", num=2, return_score=True)
    assert [set(item) for item in found] == [{"id", "contents"}] * 2
    assert found[0]["contents"].startswith('"Title ')
    assert scores == sorted(scores, reverse=True)
    assert retriever.search("gold price", num=2) == found
    assert len(retriever.search("gold price")) <= retriever.topk == 3
    whole = retriever.batch_search(["gold price", "AAPL rose"], 2, return_score=True)
    assert whole == ([found, retriever.search("AAPL rose", 2)], [scores, retriever.search("AAPL rose", 2, True)[1]])
    assert retriever.batch_search([]) == []
    with pytest.raises(InvalidField, match="num"):
        retriever.search("gold", num=0)


@pytest.mark.parametrize("query", ["gold price", "黄金价格", "AAPL", "nothing known"])
def test_sr28_words_rank_by_the_formula_in_both_languages(query: str) -> None:
    wanted = by_formula([tokens(document.contents) for document in DOCUMENTS], tokens(query))
    found, scores = BM25Retriever(DOCUMENTS).search(query, 10, return_score=True)
    order = [at for at in np.argsort(-np.array(wanted), kind="stable") if wanted[at] > 0]
    assert [item["id"] for item in found] == [f"d{at}" for at in order]
    assert scores == pytest.approx([wanted[at] for at in order], rel=1e-4)


def test_sr29_vectors_rank_by_inner_product_with_the_kinds_of_their_texts() -> None:
    encoder = Letters()
    retriever = DenseRetriever(DOCUMENTS, encoder)
    found, scores = retriever.search("the price of silver", 7, return_score=True)
    passages = Letters().encode([document.contents for document in DOCUMENTS], "passage")
    products = passages @ Letters().encode(["the price of silver"], "query")[0]
    assert [item["id"] for item in found] == [f"d{at}" for at in np.argsort(-products.round(5), kind="stable")]
    assert scores == pytest.approx(sorted(products.tolist(), reverse=True), abs=1e-6)
    assert encoder.kinds == ["passage", "query"], "which is what E5's prefixes follow from"
