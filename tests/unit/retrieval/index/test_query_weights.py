"""The weight of vectors against words, chosen per query from how far the best document of each stands out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.retrieval.config import Recipe
from fathom.services.retrieval.corpus.building import build_snapshot
from fathom.services.retrieval.corpus.snapshot import open_snapshot
from fathom.services.retrieval.documents.model import parse_document
from fathom.services.retrieval.index.ranking import Ranking, RankOptions, choose_alpha

COSINES = st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=50).map(
    lambda values: np.sort(np.array(values, np.float32))[::-1]
)
# Word scores of which one stands out, and those that are all alike.
CLEAR, UNCLEAR = (np.array([9.0, *[rest] * 40], np.float32) for rest in (1.0, 8.5))


def test_vectors_weigh_more_when_the_nearest_stands_out() -> None:
    alike, apart = (np.array([0.8, *[rest] * 40], np.float32) for rest in (0.75, 0.3))
    assert choose_alpha(alike, 0.1, CLEAR) < 0.1
    assert choose_alpha(apart, 0.1, CLEAR) > 0.75
    # What counts is the spread of the corpus: to some encoders all texts are near to each other.
    assert choose_alpha(alike, 0.01, CLEAR) > 0.75


def test_vectors_that_are_all_equal_have_no_weight() -> None:
    assert choose_alpha(np.full(40, 0.5, np.float32), 0.0, CLEAR) == 0.0


def test_vectors_decide_where_words_find_nothing_that_stands_out() -> None:
    # Pages of a report that all have the words of the question, and are near to it.
    alike = np.array([0.8, *[0.75] * 40], np.float32)
    assert choose_alpha(alike, 0.1, UNCLEAR) > 0.5
    assert choose_alpha(alike, 0.1, np.zeros(41, np.float32)) <= 0.6


@given(COSINES, st.floats(0, 1), st.lists(st.floats(0, 50, width=32), min_size=2, max_size=60))
def test_weights_are_shares(cosines: np.ndarray, spread: float, words: list[float]) -> None:
    assert 0 <= choose_alpha(cosines, spread, np.array(words, np.float32)) <= 1


class Alike:
    """Encoder to which all texts but one mean nearly the same."""

    name, dim = "alike", 8

    def encode(self, texts: list[str], _: str) -> np.ndarray:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            vectors[row, : 3 if "amortisation" in text else 4] = 1
            vectors[row, 4] = len(text) % 7 / 50
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_vectors_that_tell_little_apart_do_not_outvote_a_rare_word(tmp_path: Path) -> None:
    rows = [{"id": f"d{n}", "text": f"Revenue note {n} of the annual report." + " More." * (n % 7)} for n in range(60)]
    rows.append({"id": "wanted", "text": "Goodwill amortisation."})
    recipe = Recipe(encoder="alike")
    build_snapshot("x", [parse_document(row) for row in rows], recipe, tmp_path, lambda _: Alike())  # type: ignore[arg-type, return-value]
    snapshot = open_snapshot(tmp_path)
    assert snapshot.index.alpha is None  # type: ignore[attr-defined]
    query = "report on goodwill"
    vectors = Alike().encode([query], "query")
    (ranked,) = snapshot.index.rank([query], vectors, RankOptions(3, ranking=Ranking.HYBRID))
    assert snapshot.table.documents[ranked[0][0]].id == "wanted"
