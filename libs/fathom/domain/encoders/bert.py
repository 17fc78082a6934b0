"""BERT inference in NumPy, without padding: the texts of a batch are concatenated into one matrix of tokens.

Architecture: arXiv 1810.04805, with norms after each residual, learned positions and the exact GELU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fathom.domain.encoders.base import scale_to_unit
from fathom.domain.encoders.packing import Rows, Stretch, group_by_length, split_rows

Floats = NDArray[np.float32]

# Rows of one elementwise pass of GELU, so that its ten operations stay in a processor's cache.
ROWS_IN_CACHE = 64
# Coefficients of the error function's approximation (Abramowitz and Stegun, 7.1.26): off by at most 1.5e-7.
ERF_SCALE, ERF = 0.3275911, (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


@dataclass(frozen=True)
class Linear:
    """A linear layer: weights [in, out] and bias [out]."""

    weights: Floats
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        product: Floats = rows @ self.weights
        product += self.bias
        return product


@dataclass(frozen=True)
class Norm:
    """A layer norm over the last axis."""

    weight: Floats
    bias: Floats
    epsilon: float

    def __call__(self, rows: Floats) -> Floats:
        centred: Floats = rows - rows.mean(-1, keepdims=True)
        variance = np.einsum("...i,...i->...", centred, centred)[..., None] / rows.shape[-1]
        centred *= self.weight / np.sqrt(variance + np.float32(self.epsilon))
        centred += self.bias
        return centred


@dataclass(frozen=True)
class Block:
    """One transformer layer: attention and feed-forward, each with its residual and norm."""

    attend: Linear
    """Query, key and value as one layer, their outputs one after another."""
    attended: Linear
    norm_attended: Norm
    widen: Linear
    narrow: Linear
    norm: Norm


@dataclass(frozen=True)
class Bert:
    """BERT encoder with mean pooling. Read-only, hence thread-safe."""

    words: Callable[[NDArray[np.int64]], Floats]
    """Embedding [tokens, hidden] of ids [tokens]."""
    places: Floats
    """Embedding [positions, hidden] of positions, that of the first token type added."""
    norm: Norm
    blocks: tuple[Block, ...]
    heads: int
    workers: Executor
    """Compute the parts of a batch, each with one thread."""
    threads: int

    @property
    def dim(self) -> int:
        """Length of a state."""
        return int(self.places.shape[1])

    def encode(self, rows: Rows) -> Floats:
        """Return the mean states [texts, dim] at length 1 of texts as token ids, none of them empty."""
        pooled = np.empty((len(rows), self.dim), dtype=np.float32)
        parts = split_rows(rows, self.threads)
        states = self.workers.map(lambda part: self._pool_states([rows[at] for at in part]), parts)
        for part, found in zip(parts, states, strict=True):
            pooled[part] = found
        return scale_to_unit(pooled)

    def list_states(self, row: Sequence[int]) -> list[Floats]:
        """Return the states [tokens, dim] of one text behind each layer, in their order."""
        return list(self._compute_layers([row], list(group_by_length([row]))))

    def _pool_states(self, rows: Rows) -> Floats:
        """Return mean states of texts sorted by length."""
        stretches = list(group_by_length(rows))
        # Only the last states are kept: those of all layers of a large batch would be twelve times as many.
        for states in self._compute_layers(rows, stretches):
            last = states
        return np.concatenate(
            [last[each.rows].reshape(each.count, each.length, -1).mean(1) for each in stretches]
        )  # fmt: skip

    def _compute_layers(self, rows: Rows, stretches: Sequence[Stretch]) -> Iterator[Floats]:
        """Yield the states [tokens, dim] behind each layer."""
        ids = np.concatenate([np.asarray(row) for row in rows])
        places = np.concatenate([np.arange(len(row)) for row in rows])
        states = self.norm(self.words(ids) + self.places[places])
        for block in self.blocks:
            attended = block.attended(self._attend(block.attend(states), stretches))
            states = block.norm_attended(attended + states)
            states = block.norm(block.narrow(apply_gelu(block.widen(states))) + states)
            yield states

    def _attend(self, projected: Floats, stretches: Sequence[Stretch]) -> Floats:
        """Return contexts [tokens, hidden] of queries, keys and values [tokens, 3 * hidden]."""
        width = self.dim // self.heads
        contexts = np.empty((len(projected), self.dim), dtype=np.float32)
        for each in stretches:
            shape = (each.count, each.length, 3, self.heads, width)
            query, key, value = projected[each.rows].reshape(shape).transpose(2, 0, 3, 1, 4)
            scores = query @ key.swapaxes(-1, -2)
            scores *= np.float32(width**-0.5)
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(-1, keepdims=True)
            contexts[each.rows] = (scores @ value).swapaxes(1, 2).reshape(-1, self.dim)
        return contexts


def apply_gelu(rows: Floats) -> Floats:
    """Return the exact GELU of each number, x/2 · (1 + erf(x/√2)), in place."""
    for start in range(0, len(rows), ROWS_IN_CACHE):
        part = rows[start : start + ROWS_IN_CACHE]
        scaled = np.abs(part) * np.float32(0.5**0.5)
        step = 1 / (1 + np.float32(ERF_SCALE) * scaled)
        series = np.full_like(step, ERF[-1])
        for coefficient in reversed(ERF[:-1]):
            series *= step
            series += np.float32(coefficient)
        series *= step
        np.negative(np.square(scaled, out=scaled), out=scaled)
        series *= np.exp(scaled, out=scaled)
        # The error function of |x|/√2 is 1 - series; x · sign(x) makes it that of x.
        part += np.abs(part) * (1 - series)
        part *= np.float32(0.5)
    return rows
