"""Detection of near-duplicate sentences in an answer."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from fathom.domain.text.scripts import HAN_CHARACTER

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
# Code, references and figure blocks repeat by nature.
FENCE = re.compile(r"```.*?(?:```|\Z)|\{\{[^{}\n]{0,200}\}\}|<figure>.*?(?:</figure>|\Z)", re.DOTALL)
# Citations, emphasis and list marks: two sentences that differ in ``[3]`` or ``**`` say the same.
NOISE = re.compile(r"\[\d[\d,，\s]*\]|[*_`#>|]|^\s*(?:[-+•]|\d+[.)、])\s+")
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
# Jaccard 0.8 tolerates one exchanged word in a sentence of usual length. Comparison is quadratic, hence the limit of
# sentences; below ten grams ("It rose.") two sentences are alike by chance.
SIMILAR, MAX_SENTENCES, MIN_GRAMS = 0.8, 400, 10


@dataclass(frozen=True)
class Repetition:
    """A sentence that repeats an earlier one, both quoted from the answer."""

    earlier: str
    sentence: str


def find_repetitions(markdown: str) -> list[Repetition]:
    """Return sentences that nearly repeat an earlier one, except code, tables and short sentences."""
    known: list[tuple[str, frozenset[str], tuple[str, ...]]] = []
    found: list[Repetition] = []
    for sentence in split_sentences(markdown):
        grams, figures = fingerprint(sentence)
        if len(grams) < MIN_GRAMS:
            continue
        # Sentences with different figures are different statements, however similar they are.
        match = next((text for text, other, same in known if same == figures and is_similar(grams, other)), None)
        if match is not None:
            found.append(Repetition(match, sentence))
        known.append((sentence, grams, figures))
    return found


def split_sentences(markdown: str) -> Iterator[str]:
    """Yield at most ``MAX_SENTENCES`` sentences of the prose."""
    parts = (part.strip() for part in SENTENCE_END.split(FENCE.sub("\n", markdown)))
    prose = (part for part in parts if part and not part.startswith("|"))
    for count, part in enumerate(prose):
        if count == MAX_SENTENCES:
            return
        yield part


def fingerprint(sentence: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return character trigrams (bigrams for ideographs) and the figures in order, without citations and markup."""
    plain = NOISE.sub(" ", unicodedata.normalize("NFKC", sentence).casefold())
    letters = "".join(char for char in plain if char.isalnum())
    # An ideograph carries about as much as a syllable, so two of them stand for three letters.
    size = 2 if len(HAN_CHARACTER.findall(letters)) * 2 > len(letters) else 3
    grams = frozenset(letters[start : start + size] for start in range(len(letters) - size + 1))
    return grams, tuple(FIGURES.findall(plain))


def is_similar(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether the Jaccard similarity is at least ``SIMILAR``."""
    return len(one & other) >= SIMILAR * len(one | other)
