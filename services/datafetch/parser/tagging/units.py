"""The units of a question that are tagged, and what a head sees of each: the encoder's states and the words around."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.text.scripts import HAN
from fathom.services.datafetch.parser.mention import Mention, MentionKind

# A Latin word, a number, or any other single character: Chinese words are told apart by their tags.
UNIT = re.compile(r"[A-Za-zÀ-ɏ]+(?:['’][a-z]+)?|\d+(?:[.,]\d+)*|\S")
DIGIT = re.compile(r"\d")
HAN_CHAR = re.compile(rf"[{HAN}]")
# The layer, counted from 0, whose states tell tags apart best: the last ones are made for the sentence as a whole.
LAYER = 7
# Hashes of the words around a unit and of what they were read as, and how much the words count beside the states.
WORDS, READINGS, WORDING = 1_024, 512, 0.7
# Longest ending and beginning of a Latin word that says something of it, and the neighbours that do.
AFFIX, REACH = 3, 2

# Kinds whose values are a small set.
NAMED = (MentionKind.MEASURE, MentionKind.FREQUENCY, MentionKind.OUTPUT)

Span = tuple[int, int]
Floats = NDArray[np.float32]


@runtime_checkable
class PieceEncoder(Protocol):
    """Encoder that returns the states of the pieces of a text."""

    def encode_pieces(self, text: str) -> tuple[Any, Sequence[Floats]]:
        """Return the pieces with their ``spans`` in the text, and their states behind each layer."""
        ...


def find_units(text: str) -> list[Span]:
    """Return the spans of the words, numbers, and single other characters of a text."""
    return [match.span() for match in UNIT.finditer(text)]


def make_features(
    text: str, units: Sequence[Span], mentions: Sequence[Mention], encoder: PieceEncoder
) -> NDArray[np.float64]:
    """Return the features [units, dim] of the units of a text, which has been read as some mentions."""
    pieces, layers = encoder.encode_pieces(text)
    held = np.array(
        [[start < end and start < last and first < end for start, end in pieces.spans] for first, last in units]
    )
    # A unit beyond the encoder's limit has no piece: the words around it are all that is known.
    share = held / held.sum(axis=1, keepdims=True).clip(min=1)
    states = share @ layers[LAYER].astype(np.float64)
    words = [DIGIT.sub("0", text[start:end].lower()) for start, end in units]
    readings = [describe_reading(unit, mentions) for unit in units]
    hashed = hash_rows([list(list_features(words, at)) for at in range(len(units))], WORDS)
    read = hash_rows([list(list_readings(readings, at)) for at in range(len(units))], READINGS)
    return np.hstack([states, blur(states), WORDING * scale_to_unit(hashed), scale_to_unit(read)])


def blur(states: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the states before and behind each unit: a single Chinese character is seldom a word."""
    padded = np.pad(states, ((1, 1), (0, 0)), mode="edge")
    return np.asarray((padded[:-2] + padded[2:]) / 2)


def hash_rows(rows: Sequence[Sequence[str]], size: int) -> NDArray[np.float64]:
    """Return [rows, size]: the sums of the signed hashes of each row's features."""
    out = np.zeros((len(rows), size))
    for row, features in zip(out, rows, strict=True):
        for feature in features:
            code = zlib.crc32(feature.encode())
            row[code % size] += 1.0 if code >> 20 & 1 else -1.0
    return out


def describe_reading(unit: Span, mentions: Sequence[Mention]) -> str:
    """Return what a unit was read as: the kind, and the value where it is one of few; "" for nothing."""
    found = [item for item in mentions if item.start < unit[1] and unit[0] < item.end]
    return "+".join(f"{one.kind}:{one.value}" if one.kind in NAMED else str(one.kind) for one in found)


def list_readings(readings: Sequence[str], at: int) -> Iterator[str]:
    """Yield what a unit and its neighbours were read as."""
    for step in range(-REACH, REACH + 1):
        yield f"{step}={readings[at + step] if 0 <= at + step < len(readings) else '|'}"
    yield f"pair={readings[max(at - 1, 0)]} {readings[at]}"
    yield f"next={readings[at]} {readings[min(at + 1, len(readings) - 1)]}"


def list_features(words: Sequence[str], at: int) -> Iterator[str]:
    """Yield what is known of a unit by the letters of it and of its neighbours, with all digits alike."""
    for step in range(-REACH, REACH + 1):
        word = words[at + step] if 0 <= at + step < len(words) else "|"
        yield f"{step}={word}"
    word, pair = words[at], words[at : at + 2]
    yield f"pair={' '.join(pair)}"
    yield f"last={' '.join(words[max(at - 1, 0) : at + 1])}"
    yield f"three={' '.join(words[max(at - 1, 0) : at + 2])}"
    if not HAN_CHAR.match(word):
        yield from (f"<{word[:size]}" for size in range(2, AFFIX + 1))
        yield from (f"{word[-size:]}>" for size in range(2, AFFIX + 1))
