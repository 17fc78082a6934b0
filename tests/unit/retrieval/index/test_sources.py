"""Passages that are lifted by the file that they are of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fathom.services.retrieval.index.lexical import LexicalIndex, select_best
from fathom.services.retrieval.index.postings import build_postings
from fathom.services.retrieval.index.sources import SUPPORT
from fathom.services.retrieval.index.text import tokenise

# The figures that a question asks for are on a page that names neither company nor year.
TABLE = "Purchases of property, plant and equipment | 1,577 | 1,373"
BOREAL = ["Annual report of Boreal for 2021.", "Boreal mines zinc in the north.", TABLE]
ACME = ["Annual report of Acme for 2018.", "Acme bakes bread in the south.", TABLE]
QUESTION = "What were the purchases of property of Acme in 2018?"


def open_index(texts: Sequence[str], sources: Sequence[int]) -> LexicalIndex:
    postings = build_postings(tokenise(text) for text in texts)
    return LexicalIndex([postings], np.array(sources, np.uint64))


def score(index: LexicalIndex, query: str, mask: Sequence[bool] | None = None) -> list[float]:
    found = index.compute_scores(tokenise(query), None if mask is None else np.array(mask))
    assert found is not None
    return found.tolist()


def test_of_equal_passages_the_one_of_the_file_that_the_question_names_is_first() -> None:
    scores = score(open_index([*BOREAL, *ACME], [7, 7, 7, 9, 9, 9]), QUESTION)
    assert scores[5] > scores[2] > 0
    assert score(LexicalIndex.build(map(tokenise, [*BOREAL, *ACME])), QUESTION)[5] == pytest.approx(
        score(LexicalIndex.build(map(tokenise, [*BOREAL, *ACME])), QUESTION)[2]
    ), "by their own words they are alike"


def test_a_file_lifts_only_passages_that_have_a_word_of_the_query_themselves() -> None:
    index = open_index([*BOREAL, *ACME], [7, 7, 7, 9, 9, 9])
    scores = score(index, "zinc")
    assert [at for at, one in enumerate(scores) if one > 0] == [1]
    alone = LexicalIndex.build(map(tokenise, [*BOREAL, *ACME]))
    assert scores[1] == pytest.approx((1 + SUPPORT) * score(alone, "zinc")[1]), "the best file adds the whole support"


def test_what_a_filter_hides_gets_no_score_and_is_no_measure_of_support() -> None:
    index = open_index([*BOREAL, *ACME], [7, 7, 7, 9, 9, 9])
    scores = score(index, QUESTION, [True] * 3 + [False] * 3)
    assert scores[3:] == [0.0] * 3
    own = score(LexicalIndex.build(map(tokenise, [*BOREAL, *ACME])), QUESTION)
    assert scores[2] == pytest.approx(own[2] + SUPPORT * max(own[:3])), "of the files shown, this one is the best"


def test_rows_without_a_file_and_files_of_one_passage_are_ranked_by_their_own_words() -> None:
    texts = [*BOREAL, *ACME]
    own = score(LexicalIndex.build(map(tokenise, texts)), QUESTION)
    assert score(open_index(texts, [0] * 6), QUESTION) == own
    assert score(open_index(texts, range(1, 7)), QUESTION) == own


def test_rows_beside_a_file_are_supported_together() -> None:
    texts = [*BOREAL, "Purchases of Acme in 2018", "Purchases of others"]
    scores = score(open_index(texts, [7, 7, 7, 0, 0]), QUESTION)
    assert select_best(np.array(scores, np.float32), 1).tolist() == [3]


def test_a_corpus_without_documents_has_no_scores() -> None:
    assert LexicalIndex([], np.empty(0, np.uint64)).compute_scores(["gold"]) is None
