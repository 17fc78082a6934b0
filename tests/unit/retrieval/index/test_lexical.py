"""BM25 against its formula, computed here by hand over texts in two languages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.services.retrieval.index.lexical import K1, B, LexicalIndex, select_best
from fathom.services.retrieval.index.postings import load_postings
from fathom.services.retrieval.index.text import tokenise

TEXTS = [
    "Gold rose 3.5% in 2020, gold miners rose more.", "Silver fell.", "黄金价格上涨，白银价格下跌。",
    "The price of gold in US dollars", "AAPL and MSFT reported; AAPL rose.", "银行股上涨", "",
]  # fmt: skip
QUERIES = ["gold price", "AAPL", "黄金价格", "gold gold silver", "上涨", "nothing known"]


def by_formula(corpus: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """Lucene's: the inverse document frequency times tf / (tf + k1 (1 - b + b length / mean)), once per query term."""
    mean = sum(map(len, corpus)) / len(corpus)
    scores = []
    for words in corpus:
        counts, score = Counter(words), 0.0
        for term in query:
            holding = sum(term in other for other in corpus)
            # BM25's inverse document frequency with 1 inside the logarithm, which keeps it above zero.
            rarity = math.log(1 + (len(corpus) - holding + 0.5) / (holding + 0.5))
            # Saturation by K1 and length by B; the factor K1 + 1 of the numerator changes no order and is left out.
            score += rarity * counts[term] / (counts[term] + K1 * (1 - B + B * len(words) / mean)) if holding else 0
        scores.append(score)
    return scores


def check_scores(corpus: list[list[str]], query: list[str], index: LexicalIndex) -> None:
    found, wanted = index.compute_scores(query), by_formula(corpus, query)
    if found is None:
        assert not any(wanted)
        return
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    positions = select_best(found, 3).tolist()
    # By score and not by position: equal scores have no order.
    assert [round(wanted[at], 4) for at in positions] == [
        round(value, 4) for value in sorted((value for value in wanted if value > 0), reverse=True)[:3]
    ]


def test_scores_are_those_of_the_formula_also_after_loading(tmp_path: Path) -> None:
    corpus = [tokenise(text) for text in TEXTS]
    index = LexicalIndex.build(corpus)
    index.segments[0].save(tmp_path / "words.bin")
    for opened in (index, LexicalIndex([load_postings(tmp_path / "words.bin", len(corpus))])):
        for query in QUERIES:
            check_scores(corpus, tokenise(query), opened)


# Few words, so that they repeat within and across documents.
words = st.lists(st.sampled_from(["a1", "b2", "c3", "d4", "e5"]), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(st.lists(words, min_size=2, max_size=8), words)
def test_any_corpus_is_scored_by_the_formula(corpus: list[list[str]], query: list[str]) -> None:
    check_scores(corpus, query, LexicalIndex.build(corpus))
