"""Detection of near-duplicate sentences in an answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
FENCE = re.compile(r"```.*?(?:```|\Z)|\{\{[^{}\n]{0,200}\}\}|<figure>.*?(?:</figure>|\Z)", re.DOTALL)
NOISE = re.compile(r"\[\d[\d,，\s]*\]|[*_`#>|]|^\s*(?:[-+•]|\d+[.)、])\s+")
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")
SIMILAR, MAX_SENTENCES, MIN_GRAMS = 0.8, 400, 10


@dataclass(frozen=True)
class Repetition:
    """A sentence that repeats an earlier one, both quoted from the answer."""

    earlier: str
    sentence: str


def repetitions(markdown: str) -> list[Repetition]:
    """Return sentences that nearly repeat an earlier one, except code, tables and short sentences."""
    known: list[tuple[str, frozenset[str], tuple[str, ...]]] = []
    found: list[Repetition] = []
    for sentence in sentences(markdown):
        grams, figures = shape(sentence)
        if len(grams) < MIN_GRAMS:
            continue
        # Sentences with different figures are different statements, however similar they are.
        match = next((text for text, other, same in known if same == figures and alike(grams, other)), None)
        if match is not None:
            found.append(Repetition(match, sentence))
        known.append((sentence, grams, figures))
    return found


def sentences(markdown: str) -> Iterator[str]:
    """Yield at most ``MAX_SENTENCES`` sentences of the prose."""
    parts = (part.strip() for part in SENTENCE_END.split(FENCE.sub("\n", markdown)))
    prose = (part for part in parts if part and not part.startswith("|"))
    for count, part in enumerate(prose):
        if count == MAX_SENTENCES:
            return
        yield part


def shape(sentence: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return character trigrams (bigrams for ideographs) and the figures in order, without citations and markup."""
    plain = NOISE.sub(" ", unicodedata.normalize("NFKC", sentence).casefold())
    letters = "".join(char for char in plain if char.isalnum())
    size = 2 if len(IDEOGRAPH.findall(letters)) * 2 > len(letters) else 3
    grams = frozenset(letters[start : start + size] for start in range(len(letters) - size + 1))
    return grams, tuple(FIGURES.findall(plain))


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether the Jaccard similarity is at least ``SIMILAR``."""
    return len(one & other) >= SIMILAR * len(one | other)
