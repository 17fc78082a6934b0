"""Rate how likely a sentence or a row of a table answers a question, by a calibrated linear model.

The reference policy has no reader of text. What it can measure is how much of the question a passage takes up, by its
words and, where there is a sentence encoder, by their meaning, and whether it says something of the kind that is asked
for: a number, a year, a name. The weights are fitted by
``python -m fathom.domain.passages.training`` on public sets of questions, among them ones whose
answer was taken out of the passage.
"""

from __future__ import annotations

import difflib
import json
import logging
import math
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData, FathomError
from fathom.domain.passages.nearness import LAYERS, MEASURES, Nearness, StateEncoder
from fathom.domain.regression import softmax, unpack
from fathom.domain.text.scripts import HAN_CHARACTER
from fathom.domain.text.terms import TOKEN, YEAR, Part, find_within, is_chinese, list_parts, list_words, quote_part

LOG = logging.getLogger(__name__)
FILE = Path(__file__).parent / "answerability.json"
# The fitted models: of words alone, and with the states of an encoder.
WORDS, STATES = "words", "states"
NUMBER = re.compile(r"\d[\d.,]*")
# A name or a figure of a question; the first word has a capital of its own.
NAMED = re.compile(r"(?<!^)\b(?:[A-Z][\w&.-]*|\d[\d.,]*)")
CAPITALISED = re.compile(r"(?<=[\w,] )[A-Z]\w+|《[^》]+》")
# Hashes of a question's words; more do no better in cross-validation.
HASHES = 64
MOST_MISSING, LONG_CHARS = 6, 160
# Beside the fifth of a full vector's length that the words get, the measures count in full.
WORDING = 0.7
MOST_PARTS = 6
"""Sentences and rows with most terms of a question, of which the likeliest is quoted."""


@dataclass(frozen=True)
class Quoted:
    """A part of a text, and its quotation with the sentences that follow it."""

    part: Part
    text: str


@dataclass(frozen=True)
class Answerability:
    """Linear model of the probability that a quotation answers, and from which one on it may be said to."""

    weights: NDArray[np.float64]
    bias: float
    temperature: float
    threshold: float
    centres: NDArray[np.float32]
    """Mean states of the encoder [layers, dim]; empty for a model of words alone."""
    means: NDArray[np.float64]
    """Usual measures of nearness; empty for a model of words alone."""

    def rate(self, features: NDArray[np.float64]) -> list[float]:
        """Return the probability of each row of features."""
        logits = (features @ self.weights + self.bias) / self.temperature
        return [float(one) for one in softmax(np.stack([np.zeros_like(logits), logits], axis=1))[:, 1]]


@cache
def load_answerability(kind: str = WORDS) -> Answerability:
    """Load the fitted model of a kind; raise ``CorruptData`` for a file that does not fit the features."""
    try:
        data: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))[kind]
        weights, centres, means = (unpack(data[name]) for name in ("weights", "centres", "means"))
        bias, temperature, threshold = (float(data[name]) for name in ("bias", "temperature", "threshold"))
        found = Answerability(
            weights, bias, temperature, threshold, centres.astype(np.float32).reshape(len(LAYERS), -1), means
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptData(FILE.name, f"{type(error).__name__} {error}") from error
    count = measure_quotations("Who?", [Quoted(Part("", "He."), "He.")], "", "He.").shape[1]
    if len(weights) != count + (2 * MEASURES if kind == STATES else 0):
        raise CorruptData(FILE.name, "its weights do not fit the features")
    return found


class Rater:
    """Rates quotations by their words, and by the states of an encoder where there is one; thread-safe."""

    def __init__(self, encoder: StateEncoder | None = None) -> None:
        """Use an encoder, which is loaded for the first question about a text."""
        self._nearness = Nearness(encoder, load_answerability(STATES).centres) if encoder is not None else None

    @property
    def has_meanings(self) -> bool:
        """Return whether texts are compared by what they mean, too."""
        return self._nearness is not None

    @property
    def threshold(self) -> float:
        """Return the probability from which on a quotation may be given as the answer."""
        return load_answerability(STATES if self.has_meanings else WORDS).threshold

    def rate(self, question: str, found: Sequence[Quoted], title: str, text: str) -> list[float]:
        """Return the probability that each quotation of a text answers a question."""
        if not found:
            return []
        features, nearness = measure_quotations(question, found, title, text), self._nearness
        if nearness is not None:
            try:
                near = nearness.measure(question, [name_part(title, one) for one in found])
                model = load_answerability(STATES)
                return model.rate(join_nearness(question, features, near - model.means))
            except FathomError as error:
                # Answers by words are better than none; which of the two they were must show somewhere.
                LOG.warning("passages are rated by their words alone: %s", error)
                self._nearness = None
        return load_answerability().rate(features)


def name_part(title: str, one: Quoted) -> str:
    """Return a part with its title, without which a sentence may not say of what it speaks."""
    return f"{title}: {one.part.whole.strip()}"


def join_nearness(question: str, features: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return features with measures of nearness, which have another scale in Chinese."""
    return np.hstack([features, near, near * float(is_chinese(question))])


def quote_parts(question: str, text: str) -> list[Quoted]:
    """Return quotations of the parts of a text with most terms of a question, in their order."""
    wanted, parts = set(list_words(question)), list_parts(text)
    scores = [len(wanted & list_own_words(question, part)) for part in parts]
    # The names of columns answer nothing without a row below them.
    heads = {line for part in parts for line in part.head.splitlines()}
    said = [place for place, part in enumerate(parts) if part.text not in heads]
    best = sorted(said, key=lambda place: -scores[place])[:MOST_PARTS]
    return [Quoted(parts[place], quote_part(text, parts, place)) for place in sorted(best)]


def measure_quotations(question: str, found: Sequence[Quoted], title: str, text: str) -> NDArray[np.float64]:
    """Return features by quotation: how much of the question it takes up, and what else it says by that's words."""
    whole = set(list_words(f"{title}\n{text}"))
    taken = np.array([list(measure_overlap(question, one, title, whole)) for one in found])
    kinds = np.array([list_kinds(question, one.part.text) for one in found])
    # Pairs of characters and words of letters are shared at different rates.
    chinese = np.full((len(found), 1), float(is_chinese(question)))
    # The kinds by the question's words: "how many" goes with a figure, "who" with a name.
    asked = WORDING * (kinds[:, :, None] * hash_question(question)).reshape(len(found), -1)
    return np.hstack([taken, taken * chinese, chinese, kinds, asked])


def measure_overlap(question: str, one: Quoted, title: str, whole: set[str]) -> Iterator[float]:
    """Yield shares of the question's terms, names and letters in a part, in its quotation and in its text."""
    part, asked, named = one.part, set(list_words(question)), set(list_words(title))
    headed = list_own_words(question, part)
    quoted = headed | set(list_words(one.text))
    around, count = quoted | named, max(1, len(asked))
    for words in (set(list_words(part.text)), headed, quoted, around, named, whole):
        yield len(asked & words) / count
    # A line is too weak for shares near one: nine terms of ten are far more than eight.
    yield (len(asked & headed) / count) ** 2
    yield (len(asked & around) / count) ** 2
    for words in (headed, around):
        yield min(len(asked - words), MOST_MISSING) / MOST_MISSING
    # A name or a year that a passage does not have is worse than any other word.
    names = NAMED.findall(question)
    for place in (part.whole, f"{title} {one.text}"):
        yield sum(name.casefold() not in place.casefold() for name in names) / max(1, len(names))
    letters, others = list_runs(question), list_runs(part.whole)
    yield len(letters & others) / max(1, len(letters))
    matcher = difflib.SequenceMatcher(None, part.text.casefold(), question.casefold(), autojunk=False)
    yield matcher.find_longest_match().size / max(1, len(question))
    yield math.log(len(part.text) + 1) / 6
    yield math.log(len(one.text) + 1) / 6
    yield len(asked) / 10
    yield float(part.is_row)


def list_own_words(question: str, part: Part) -> set[str]:
    """Return the terms of a part with the names of its columns; a quantity within one of its ranges is one of them."""
    return set(list_words(" ".join([part.whole, *find_within(question, part)])))


def list_kinds(question: str, text: str) -> list[float]:
    """Return which kinds of things a text says that the question does not: figures, years, shares, money, names."""
    known = question.casefold()
    numbers = [one.strip(".,") for one in NUMBER.findall(text) if one.strip(".,") not in known]
    names = [one for one in CAPITALISED.findall(text) if one.casefold() not in known]
    has_number = any(not YEAR.fullmatch(one) for one in numbers)
    return [
        float(has_number),
        float(any(YEAR.fullmatch(one) for one in numbers)),
        float(has_number and ("%" in text or "％" in text)),
        float(has_number and any(unicodedata.category(one) == "Sc" for one in text)),
        float(bool(names)),
        float(len(text) > LONG_CHARS),
        1.0,
    ]


def list_runs(text: str) -> set[str]:
    """Return the runs of four letters of a text, of two for Chinese: inflected words share most of theirs."""
    plain = re.sub(r"\W+", "", text.casefold())
    size = 2 if is_chinese(text) else 4
    return {plain[at : at + size] for at in range(len(plain) - size + 1)}


def hash_question(question: str) -> NDArray[np.float64]:
    """Return the signed hashes of a question's words and pairs of words, of length 1."""
    words = [one.group().casefold() for one in TOKEN.finditer(question)]
    found = {f"{left} {right}" for left, right in pairwise(words) if left.isascii() and right.isascii()}
    for word in words:
        sizes = (1, 2, 3) if HAN_CHARACTER.match(word) else (len(word),)
        found |= {word[at : at + size] for size in sizes for at in range(len(word) - size + 1)}
    vector = np.zeros(HASHES)
    for one in found:
        code = zlib.crc32(one.encode())
        vector[code % HASHES] += 1.0 if code >> 20 & 1 else -1.0
    return vector / (np.linalg.norm(vector) or 1.0)
