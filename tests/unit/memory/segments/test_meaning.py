"""Meanings compared without their language, and vectors with names as datafetch gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import DependencyFailed, FathomError
from fathom.services.memory.segments.meaning import PARALLEL, Floats, Origin, list_parallel, measure_nearness, scale
from fathom.services.memory.segments.vectors import MAX_TEXTS, DatafetchVectors

DIM = 8


def make_vector(subject: int, language: float) -> Floats:
    """Return a vector as a multilingual encoder makes it: all alike, then by language, then by subject."""
    vector = np.zeros(DIM, np.float32)
    vector[0], vector[1], vector[2 + subject] = 3.0, language, 0.8
    return scale(vector)


def make_origin() -> Origin:
    return Origin.from_parallel(
        np.stack([make_vector(place % 4, language) for language in (1.0, -1.0) for place in range(16)])
    )


def test_a_subject_in_another_language_is_nearer_than_another_subject_in_the_same() -> None:
    asked = make_vector(0, -1.0)
    others = np.stack([make_vector(0, 1.0), make_vector(1, -1.0)])
    raw = others @ asked
    assert raw[1] > raw[0], "the language outweighs the subject"
    near = measure_nearness(asked, others, make_origin())
    assert near[0] == pytest.approx(1.0, abs=1e-3)
    assert near[1] < 0.1


def test_a_vector_without_direction_is_near_to_nothing() -> None:
    origin = make_origin()
    near = measure_nearness(origin.mean, np.stack([origin.mean, make_vector(2, 1.0)]), origin)
    assert np.isfinite(near).all()
    assert near.max() < 0.01


def test_each_text_of_one_language_has_its_twin_in_the_other() -> None:
    texts = list_parallel()
    assert len(set(texts)) == 2 * len(PARALLEL)
    assert [text.isascii() for text in texts] == [True] * len(PARALLEL) + [False] * len(PARALLEL)


class Datafetch:
    """Datafetch whose encoder has a name; ``error`` is raised in place of an answer."""

    def __init__(self) -> None:
        self.encoder, self.has_names, self.error = "a", True, None
        self.asked: list[int] = []

    error: FathomError | None

    async def encode_texts(self, request: pb.EncodeTextsRequest, timeout_s: float) -> pb.EncodeTextsResponse:
        if self.error:
            raise self.error
        assert request.with_names
        self.asked.append(len(request.texts))
        rows = np.stack([make_vector(len(text) % 4, 1.0 if text.isascii() else -1.0) for text in request.texts])
        names = [pb.TextNames(ids=["KO"] if "Coca-Cola" in text else []) for text in request.texts]
        return pb.EncodeTextsResponse(
            encoder=self.encoder, dim=DIM, vectors=rows.astype("<f4").tobytes(), names=names if self.has_names else []
        )


def open_vectors(datafetch: Datafetch, errors: list[FathomError]) -> DatafetchVectors:
    clients: Clients = type("Fake", (), {"datafetch": datafetch})()
    return DatafetchVectors(clients, 5.0, errors.append)


async def encode(datafetch: Datafetch, texts: Sequence[str]) -> tuple[list[tuple[str, ...]], list[FathomError]]:
    errors: list[FathomError] = []
    found = await open_vectors(datafetch, errors).encode(texts)
    if found is None:
        return [], errors
    assert found.vectors.shape == (len(texts), DIM)
    return [tuple(ids) for ids in found.names], errors


async def test_names_stay_with_their_texts_over_several_requests() -> None:
    datafetch = Datafetch()
    texts = [f"text {number}" for number in range(MAX_TEXTS)]
    texts[40] = "How did Coca-Cola do?"
    named, errors = await encode(datafetch, texts)
    assert [place for place, ids in enumerate(named) if ids == ("KO",)] == [40]
    assert datafetch.asked == [MAX_TEXTS, 2 * len(PARALLEL)], "with the texts of the origin, once"
    assert not errors


async def test_a_datafetch_that_names_nothing_still_gives_vectors() -> None:
    datafetch = Datafetch()
    datafetch.has_names = False
    assert await encode(datafetch, ["Coca-Cola", "Pfizer"]) == ([(), ()], [])


async def test_an_encoder_that_is_away_or_another_one_gives_nothing_once() -> None:
    datafetch, errors = Datafetch(), list[FathomError]()
    vectors = open_vectors(datafetch, errors)
    assert await vectors.encode(["a"]) is not None
    datafetch.encoder = "b"
    assert await vectors.encode(["a"]) is None, "its vectors are not compared with the first one's origin"
    assert (await vectors.encode(["a"])).encoder == "b"  # type: ignore[union-attr]
    datafetch.error = DependencyFailed("datafetch", "is away")
    assert await vectors.encode(["a"]) is None
    assert len(errors) == 1
