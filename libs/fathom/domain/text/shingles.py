"""Tokens and shingles of English and Chinese text, by which two texts are compared whatever their order and length."""

from __future__ import annotations

import re
import unicodedata

from fathom.domain.text.scripts import ALL_HAN

# A Chinese character each, and words and numbers of all other scripts; marks between the parts of a number stay.
TOKEN = re.compile(rf"[{ALL_HAN}]|[^\W_{ALL_HAN}]+(?:[.,'’-][^\W_{ALL_HAN}]+)*")

Shingle = tuple[str, ...]


def list_tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, without case, width and punctuation."""
    return TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def make_shingles(text: str, length: int) -> frozenset[Shingle]:
    """Return all runs of ``length`` tokens of a text; a shorter text is one run, an empty one has none."""
    tokens = list_tokens(text)
    if len(tokens) <= length:
        return frozenset({tuple(tokens)} if tokens else ())
    return frozenset(tuple(tokens[start : start + length]) for start in range(len(tokens) - length + 1))


def measure_jaccard(one: frozenset[Shingle], other: frozenset[Shingle]) -> float:
    """Return the share of common shingles among all of both, in [0, 1]; two empty sets are the same."""
    if not one and not other:
        return 1.0
    common = len(one & other)
    return common / (len(one) + len(other) - common)
