"""Sentence vectors for tests: a word is a direction, so that texts of the same words are near."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from fathom.domain.text.terms import list_words
from fathom.services.memory.segments.meaning import Floats, Origin
from fathom.services.memory.segments.vectors import Encoded

DIM = 256
# Words of one meaning: an encoder knows them, and the words of a text do not tell.
SAME = {"gold": "bullion", "fell": "dropped", "黄金": "bullion"}


class WordVectors:
    """Source of vectors by words; ``is_away`` answers nothing, as an encoder that is not there."""

    def __init__(self, *, is_away: bool = False, encoder: str = "words") -> None:
        self.is_away, self.encoder, self.encoded = is_away, encoder, 0
        self.names: dict[str, str] = {}

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        if self.is_away:
            return None
        self.encoded += len(texts)
        nowhere = np.zeros(DIM, np.float32)
        vectors = np.stack([make_vector(text) for text in texts])
        names = [[ident for name, ident in self.names.items() if name in text] for text in texts]
        return Encoded(self.encoder, vectors, Origin(nowhere, nowhere), names)


def make_vector(text: str) -> Floats:
    """Return the unit vector of a text."""
    vector = np.zeros(DIM, np.float32)
    for word in list_words(text) or ["nothing"]:
        vector[zlib.crc32(SAME.get(word, word).encode()) % DIM] += 1
    unit: Floats = vector / np.linalg.norm(vector)
    return unit
