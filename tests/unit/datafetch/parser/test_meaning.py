"""Likeness of meaning: loaded beside the work, kept by what it is of, and never a reason to fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fathom.core.errors import DependencyFailed
from fathom.services.datafetch.catalog.matching import Matcher
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.discovery.candidates import Parts, find_candidates
from fathom.services.datafetch.discovery.embeddings import WHOLE, Meaning
from fathom.services.datafetch.discovery.query_vectors import QueryVectors

AXES = {"jobless": 0, "unemployment": 0, "失业": 0, "price": 1, "inflation": 1, "gold": 2}


class Axes:
    """An encoder to which words of one thing are one direction."""

    name, dim = "axes", 4

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def encode(self, texts: Sequence[str], kind: str) -> Any:
        self.go.wait(10)
        self.encoded += texts
        found = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            found[row, next((axis for word, axis in AXES.items() if word in text), 3)] = 1.0
        return found


@pytest.fixture
def specs() -> list[IndicatorSpec]:
    return [
        IndicatorSpec(id="unrate", name="unemployment rate"),
        IndicatorSpec(id="cpi", name="inflation of consumer goods"),
        IndicatorSpec(id="au", name="gold"),
    ]


def test_meaning_finds_what_no_letter_shares(specs: list[IndicatorSpec]) -> None:
    matcher = Matcher(specs)
    meaning = Meaning(Axes(), matcher.texts)
    assert matcher.match("失业的人", near=meaning.near) == []
    meaning.load()
    found = matcher.match("失业的人", near=meaning.near)
    assert (found[0].id, found[0].how) == ("unrate", "embedding")


def test_an_exact_name_asks_no_encoder(specs: list[IndicatorSpec]) -> None:
    matcher, encoder = Matcher(specs), Axes()
    meaning = Meaning(encoder, matcher.texts)
    meaning.load()
    before = len(encoder.encoded)
    assert matcher.match("Gold", near=meaning.near)[0].how == "exact"
    assert len(encoder.encoded) == before


def test_vectors_are_kept_by_encoder_and_texts(tmp_path: Path) -> None:
    texts = [f"price {number}" for number in range(WHOLE)]
    first, second, third = Axes(), Axes(), Axes()
    Meaning(first, texts, tmp_path).load()
    Meaning(second, texts, tmp_path).load()
    Meaning(third, [*texts, "gold"], tmp_path).load()
    assert len(first.encoded) == WHOLE
    assert len(second.encoded) == 1
    assert len(third.encoded) == WHOLE + 1
    assert len(list(tmp_path.glob("*.npy"))) == 2


async def test_a_match_does_not_wait_for_a_slow_model(specs: list[IndicatorSpec]) -> None:
    from fathom.services.datafetch.catalog.layer import Layer

    matcher, encoder = Matcher(specs), Axes()
    encoder.go.clear()
    meaning = Meaning(encoder, matcher.texts)
    parts = Parts(matcher, meaning=meaning, wait_seconds=0.0)
    layer = Layer(indicators={spec.id: spec for spec in specs})
    assert (await find_candidates("gold bars", parts, layer, 5))[0].how == "ngram"
    encoder.go.set()
    assert await meaning.ready(10)
    assert (await find_candidates("gold bars", parts, layer, 5))[0].how == "embedding"
    await meaning.close()


async def test_without_a_model_letters_decide(specs: list[IndicatorSpec]) -> None:
    class Lost(Axes):
        def encode(self, texts: Sequence[str], kind: str) -> Any:
            raise DependencyFailed("packages", "no network")

    matcher = Matcher(specs)
    meaning = Meaning(Lost(), matcher.texts)
    assert not await meaning.ready(5)
    assert matcher.match("gold", near=meaning.near)[0].id == "au"
    await asyncio.wait_for(meaning.close(), 5)


def test_words_are_encoded_once_for_all_indexes() -> None:
    encoder = Axes()
    queries = QueryVectors(encoder)
    names, terms = Meaning(encoder, ["gold"], queries=queries), Meaning(encoder, ["price"], queries=queries)
    names.load()
    terms.load()
    encoder.encoded.clear()
    for _ in range(3):
        assert names.near("gold bars", 1) == [(0, 1.0)]
        assert terms.near("price level", 1) == [(0, 1.0)]
        assert names.near("price level", 1) == [(0, 0.0)]
    assert encoder.encoded == ["gold bars", "price level"]


def test_words_that_lack_a_vector_are_encoded_in_one_call() -> None:
    calls: list[list[str]] = []

    class Counted(Axes):
        def encode(self, texts: Sequence[str], kind: str) -> Any:
            calls.append(list(texts))
            return super().encode(texts, kind)

    queries = QueryVectors(Counted())
    queries.encode(["gold"])
    first, second, third = queries.encode(["price", "gold", "price"])
    assert calls == [["gold"], ["price"]]
    assert (first == third).all()
    assert second[AXES["gold"]] == 1.0
