"""Search-R1's retriever interface over the service's indexes: BM25 by its formula, and exact inner products."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.core.errors import InvalidField
from fathom.services.retrieval.documents.model import Document
from fathom.services.retrieval.index.text import tokenise
from tests.support.letters import Letters
from tests.support.retrievers import BaseRetriever, BM25Retriever, DenseRetriever
from tests.unit.retrieval.index.test_lexical import TEXTS, by_formula

DOCUMENTS = [Document(f"d{at}", f"Title {at}", text, None, "", "", ()) for at, text in enumerate(TEXTS)]


@pytest.fixture(params=["bm25", "dense"])
def retriever(request: pytest.FixtureRequest) -> BaseRetriever:
    return BM25Retriever(DOCUMENTS) if request.param == "bm25" else DenseRetriever(DOCUMENTS, Letters())


def test_both_retrievers_have_one_interface(retriever: BaseRetriever) -> None:
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
def test_ranks_by_its_formula_in_both_languages(query: str) -> None:
    wanted = by_formula([tokenise(document.contents) for document in DOCUMENTS], tokenise(query))
    found, scores = BM25Retriever(DOCUMENTS).search(query, 10, return_score=True)
    order = [at for at in np.argsort(-np.array(wanted), kind="stable") if wanted[at] > 0]
    assert [item["id"] for item in found] == [f"d{at}" for at in order]
    assert scores == pytest.approx([wanted[at] for at in order], rel=1e-4)


def test_vectors_rank_by_inner_product_and_texts_get_their_prefix() -> None:
    encoder = Letters()
    retriever = DenseRetriever(DOCUMENTS, encoder)
    found, scores = retriever.search("the price of silver", 7, return_score=True)
    passages = Letters().encode([document.contents for document in DOCUMENTS], "passage")
    products = passages @ Letters().encode(["the price of silver"], "query")[0]
    assert [item["id"] for item in found] == [f"d{at}" for at in np.argsort(-products.round(5), kind="stable")]
    assert scores == pytest.approx(sorted(products.tolist(), reverse=True), abs=1e-6)
    assert [kind for kind, _ in encoder.encoded] == ["passage", "query"], "which is what E5's prefixes follow from"
