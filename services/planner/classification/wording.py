"""Words of a text as numbers: hashed runs of characters, beside the sentence vector, which blurs single words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.text.scripts import HAN

WORD = re.compile(rf"[a-z0-9&/%.\-]+|[{HAN}]+|[?？]")
DIGIT = re.compile(r"\d")
# Lengths of the runs of characters: Latin words are cut at three to five, Chinese text at one to three.
LATIN, CHINESE = (3, 4, 5), (1, 2, 3)
# Longer texts say nothing more of what they are.
MAX_CHARS = 1_000


def hash_words(texts: Sequence[str], size: int) -> NDArray[np.float64]:
    """Return [texts, size] of length 1 per row: the signed hashes (Weinberger et al. 2009) of each text's features."""
    out = np.zeros((len(texts), size))
    if not size:
        return out
    for row, text in zip(out, texts, strict=True):
        for feature in set(list_features(text)):
            code = zlib.crc32(feature.encode())
            row[code % size] += 1.0 if code >> 20 & 1 else -1.0
    return scale_to_unit(out)


def list_features(text: str) -> Iterator[str]:
    """Yield words, pairs of words, and runs of characters, with all digits alike: "in 2019" is as "in 2020"."""
    words = WORD.findall(DIGIT.sub("0", text[:MAX_CHARS].lower()))
    for word in words:
        latin = word.isascii()
        if latin:
            yield f"={word}"
        framed = f"^{word}$" if latin else word
        for length in LATIN if latin else CHINESE:
            yield from (framed[start : start + length] for start in range(len(framed) - length + 1))
    yield from (f"{left} {right}" for left, right in pairwise(words) if left.isascii() and right.isascii())
