"""Inference of the reader's network in NumPy: an encoder with changed layers, a decoder with pointers, and a linker.

The weights change the layers of a sentence encoder by products of two narrow matrices (LoRA, arXiv 2106.09685), which
are merged at load. The decoder (arXiv 1706.03762, norms before each part) keeps keys and values of what it has read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fathom.core.errors import CorruptData
from fathom.domain.encoders.bert import Bert, Block, Linear, Norm
from fathom.domain.programs.language import INDEX, SPAN, TOKENS
from fathom.services.datafetch.programs.weights import FILE, Weights

HEADS = 8
# By what products with narrow matrices are multiplied, and pointers' and links' products are divided.
LORA_SCALE, POINTER_SCALE, LINK_SCALE = 2.0, 16.0, 8.0
EPSILON = 1e-5
OUTSIDE = -1e4

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Tensors:
    """Tensors by name."""

    held: Mapping[str, Floats]

    def linear(self, name: str) -> Linear:
        """Return a layer, whose weights are stored [out, in]."""
        return Linear(self.held[f"{name}.weight"].T, self.held[f"{name}.bias"])

    def norm(self, name: str, epsilon: float = EPSILON) -> Norm:
        return Norm(self.held[f"{name}.weight"], self.held[f"{name}.bias"], epsilon)

    def change(self, name: str, base: Linear) -> Linear:
        """Return a layer of the encoder with its change merged."""
        merged = base.weights + (self.held[f"{name}.a"] @ self.held[f"{name}.z"]) * np.float32(LORA_SCALE)
        return Linear(merged, base.bias)


@dataclass(frozen=True)
class Layer:
    """One layer of the decoder: attention to what was written, to the question, and feed-forward."""

    project: Linear
    joined: Linear
    query: Linear
    remember: Linear
    looked_up: Linear
    widen: Linear
    narrow: Linear
    norms: tuple[Norm, Norm, Norm]

    @classmethod
    def read(cls, tensors: Tensors, name: str) -> Self:
        """Return the layer of a name."""
        project, joined, query, remember, looked_up, widen, narrow = (
            tensors.linear(f"{name}.{part}") for part in ("qkv", "o", "q2", "kv2", "o2", "f1", "f2")
        )
        first, second, third = (tensors.norm(f"{name}.n{at}") for at in (1, 2, 3))
        return cls(project, joined, query, remember, looked_up, widen, narrow, (first, second, third))


@dataclass(frozen=True)
class Memory:
    """States [pieces, width] of a question, and each decoder layer's keys and values [heads, pieces, ·] of them."""

    states: Floats
    looked: tuple[tuple[Floats, Floats], ...]


@dataclass(frozen=True)
class Written:
    """Each decoder layer's keys and values [rows, heads, tokens, ·] of the tokens so far."""

    layers: tuple[tuple[Floats, Floats], ...] = ()

    def select(self, rows: Sequence[int]) -> Written:
        """Return those of some rows, in their order."""
        chosen = list(rows)
        return Written(tuple((keys[chosen], values[chosen]) for keys, values in self.layers))

    @property
    def length(self) -> int:
        """Return the number of tokens."""
        return int(self.layers[0][0].shape[2]) if self.layers else 0


class Network:
    """The reader's network over one encoder. Read-only, hence thread-safe."""

    def __init__(self, weights: Weights, base: Bert) -> None:
        """Merge the weights with the encoder's; raise ``CorruptData`` when they do not fit together."""
        try:
            self._read(Tensors(weights.tensors), base)
        except (KeyError, ValueError) as error:
            raise CorruptData(FILE.name, f"does not fit the encoder: {type(error).__name__} {error}") from error

    def _read(self, tensors: Tensors, base: Bert) -> None:
        self.encoder = change_encoder(tensors, base)
        held = tensors.held
        self.segments, self.tokens, self.places = (held[f"{name}.weight"] for name in ("segment", "token", "place"))
        count = len({name.split(".")[1] for name in held if name.startswith("layers.")})
        self.layers = tuple(Layer.read(tensors, f"layers.{at}") for at in range(count))
        self.bridge, self.norm_out = tensors.norm("bridge"), tensors.norm("out_norm")
        self.span_in, self.out = tensors.linear("span_in"), tensors.linear("out")
        self.start, self.end, self.pair = (tensors.linear(f"p_{name}") for name in ("start", "end", "pair"))
        self.link_query, self.link_entry, self.link_meta, self.link_none = (
            tensors.linear(f"l_{name}") for name in ("query", "entry", "meta", "none")
        )
        self.link_features = tensors.linear("l_feat.0"), tensors.linear("l_feat.2")
        if len(self.tokens) != len(TOKENS) or self.out.bias.shape != (len(TOKENS),) or not self.layers:
            raise ValueError("has other tokens than the language of programs")

    @property
    def most_tokens(self) -> int:
        """Return how many tokens a program can have."""
        return len(self.places)

    def read(self, ids: Sequence[int], segments: Sequence[int]) -> Memory:
        """Return the states of the pieces of a conversation."""
        states = self.bridge(self.encoder.list_states(ids)[-1] + self.segments[list(segments)])
        looked = []
        for layer in self.layers:
            keys, values = np.split(layer.remember(states), 2, axis=-1)
            looked.append((split_heads(keys), split_heads(values)))
        return Memory(states, tuple(looked))

    def advance(
        self, memory: Memory, written: Written, tokens: Sequence[int], vectors: Floats
    ) -> tuple[Floats, Written]:
        """Return the decoder's states [rows, width] behind one more token of each row.

        ``vectors`` [rows, width of the memory] are the mean states of the words that the tokens quote.
        """
        ids = np.asarray(tokens)
        states = self.tokens[ids] + self.places[written.length]
        states = states + self.span_in(vectors) * (ids == INDEX[SPAN])[:, None].astype(np.float32)
        kept = []
        for at, layer in enumerate(self.layers):
            query, key, value = (
                part.reshape(len(ids), HEADS, 1, -1) for part in np.split(layer.project(layer.norms[0](states)), 3, -1)
            )
            if written.layers:
                key = np.concatenate([written.layers[at][0], key], axis=2)
                value = np.concatenate([written.layers[at][1], value], axis=2)
            kept.append((key, value))
            states = states + layer.joined(attend(query, key, value))
            query = layer.query(layer.norms[1](states)).reshape(len(ids), HEADS, 1, -1)
            states = states + layer.looked_up(attend(query, *memory.looked[at]))
            states = states + layer.narrow(np.maximum(layer.widen(layer.norms[2](states)), 0))
        return self.norm_out(states), Written(tuple(kept))

    def score_tokens(self, states: Floats) -> Floats:
        """Return the log probabilities [rows, tokens] of the next token."""
        return log_softmax(self.out(states))

    def score_starts(self, state: Floats, memory: Memory) -> Floats:
        """Return the log probabilities [pieces] of the first piece of the words that are quoted next."""
        return log_softmax(self.start(state) @ memory.states.T / np.float32(POINTER_SCALE))

    def score_ends(self, state: Floats, memory: Memory, start: int) -> Floats:
        """Return the log probabilities [pieces] of the last piece of words that begin with one."""
        wanted = self.end(state) + self.pair(memory.states[start])
        scores: Floats = (wanted @ memory.states.T / np.float32(POINTER_SCALE)).astype(np.float32, copy=False)
        scores[:start] = OUTSIDE
        return log_softmax(scores)

    def place_entries(self, vectors: Floats) -> Floats:
        """Return the places [entries, ·] of the catalogue's entries among what mentions look for."""
        return np.asarray(self.link_entry(vectors))

    def score_links(self, state: Floats, words: Floats, places: Floats, meta: Floats, features: Floats) -> Floats:
        """Return the probabilities [entries + 1] of the entries that words may mean; the last is for none of them.

        ``state`` is the decoder's, ``words`` the mean state of the words; ``features`` [entries, ·] compare letters.
        """
        both = np.concatenate([state, words])
        first, second = self.link_features
        scores = self.link_query(both) @ places.T / np.float32(LINK_SCALE) + self.link_meta(both) @ meta.T
        scores = scores + second(np.maximum(first(features), 0))[:, 0]
        none = self.link_none(np.concatenate([both, features.max(axis=0)]))
        return np.asarray(np.exp(log_softmax(np.concatenate([scores, none]).astype(np.float32))))


def change_encoder(tensors: Tensors, base: Bert) -> Bert:
    """Return the encoder with its norms replaced and the changes of its layers merged."""
    blocks = [change_block(tensors, f"encoder.blocks.{at}", block) for at, block in enumerate(base.blocks)]
    return replace(base, norm=tensors.norm("encoder.norm", base.norm.epsilon), blocks=tuple(blocks))


def change_block(tensors: Tensors, name: str, base: Block) -> Block:
    return Block(
        attend=tensors.change(f"{name}.attend", base.attend),
        attended=tensors.change(f"{name}.attended", base.attended),
        norm_attended=tensors.norm(f"{name}.n1", base.norm_attended.epsilon),
        widen=tensors.change(f"{name}.widen", base.widen),
        narrow=tensors.change(f"{name}.narrow", base.narrow),
        norm=tensors.norm(f"{name}.n2", base.norm.epsilon),
    )


def split_heads(rows: Floats) -> Floats:
    """Return [heads, rows, width of a head] of [rows, width]."""
    return np.ascontiguousarray(rows.reshape(len(rows), HEADS, -1).swapaxes(0, 1))


def attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Return the contexts [rows, width] of queries [rows, heads, 1, ·]."""
    scores = query @ keys.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    return np.asarray(scores @ values).reshape(len(query), -1)


def log_softmax(scores: Floats) -> Floats:
    """Return the logarithms of the probabilities of scores."""
    shifted = scores - scores.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def average(states: Floats, stretches: Sequence[tuple[int, int]]) -> Floats:
    """Return the mean state of the pieces of stretches, each from a first to a last one."""
    return np.asarray(np.concatenate([states[first : last + 1] for first, last in stretches]).mean(axis=0))
