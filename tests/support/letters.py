"""Encoder for tests, without a model."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.base import Kind

DIM = 32


class Letters:
    """Vectors of letter counts: near when the letters are alike. Counts what it encodes."""

    def __init__(self, name: str = "letters", dim: int = DIM) -> None:
        self.name, self.dim = name, dim
        self.encoded: list[tuple[Kind, int]] = []
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        # A test that forgets to open the gate fails by what it asserts, after ten seconds, instead of hanging.
        self.gate.wait(10)
        self.encoded.append((kind, len(texts)))
        # Not zero: an empty text would have no direction to be scaled to length one.
        vectors = np.full((len(texts), self.dim), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for letter in text.lower():
                vectors[row, ord(letter) % self.dim] += 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors
