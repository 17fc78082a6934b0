"""Key-value caches: layers that grow in place, batches of rows, and a prefix cache across turns.

Everything here runs in the thread that computes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

# Larger blocks waste memory on short rows; smaller ones copy the whole cache more often.
BLOCK = 128
"""Columns by which a layer grows, so that tensors are copied once per block instead of once per token."""
Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values per layer, each [rows, heads, columns, D]."""


# The library's own layer concatenates, and thereby copies, all keys and values at every token.
class GrowingLayer(DynamicLayer):
    """A cache layer whose ``keys`` and ``values`` are views of larger buffers."""

    def __init__(self, keys: torch.Tensor | None = None, values: torch.Tensor | None = None, **_: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if keys is not None and values is not None:
            self.lazy_initialization(keys, values)
            self._buffers = (keys, values)
            self.keys, self.values = keys, values

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self._buffers = (key_states[:, :, :0], value_states[:, :, :0])
        self.keys, self.values = self._buffers
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append new columns [rows, heads, n, D] and return all columns."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[2]
        # A cache built over tensors of a prefix has no spare column, so its first write copies: prefixes are never
        # written to.
        if end > self._buffers[0].shape[2]:
            held, columns = self._buffers, end + BLOCK
            self._buffers = (grow_buffer(held[0], start, columns), grow_buffer(held[1], start, columns))
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = states
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
        return self.keys, self.values


def grow_buffer(buffer: torch.Tensor, used: int, columns: int) -> torch.Tensor:
    """Return a buffer of ``columns`` columns that starts with the first ``used`` ones of ``buffer``."""
    rows, heads, _, width = buffer.shape
    larger = buffer.new_empty(rows, heads, columns, width)
    larger[:, :, :used] = buffer[:, :, :used]
    return larger


def empty_cache() -> Any:
    """Return a cache that creates its layers on first use."""
    return Cache(layer_class_to_replicate=GrowingLayer)


def build_cache(layers: Layers) -> Any:
    """Return a cache over these tensors; it copies them when it first grows."""
    return Cache(layers=[GrowingLayer(keys, values) for keys, values in layers])


def list_layers(cache: Any) -> Layers:
    return [(layer.keys, layer.values) for layer in cache.layers]


def select_rows(cache: Any, rows: torch.Tensor, first: int) -> Any:
    """Return the cache of ``rows`` [n], from column ``first`` on."""
    return build_cache([(keys[rows, :, first:], values[rows, :, first:]) for keys, values in list_layers(cache)])


def stack_caches(caches: Sequence[Any], width: int) -> Any:
    """Concatenate the rows of several caches into one of ``width`` columns, padded on the left."""
    every = [list_layers(cache) for cache in caches]
    return build_cache(
        [
            (join_padded([k for k, _ in layer], width), join_padded([v for _, v in layer], width))
            for layer in zip(*every, strict=True)
        ]
    )


def join_padded(tensors: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    """Concatenate tensors [rows, heads, columns, D] along rows, right-aligned and zero-padded to ``width`` columns."""
    _, heads, _, size = tensors[0].shape
    whole = tensors[0].new_zeros(sum(tensor.shape[0] for tensor in tensors), heads, width, size)
    row = 0
    for tensor in tensors:
        whole[row : row + tensor.shape[0], :, width - tensor.shape[2] :] = tensor
        row += tensor.shape[0]
    return whole


@dataclass(frozen=True)
class Prefix:
    """Token ids [n] and their keys and values."""

    ids: torch.Tensor
    layers: Layers


class PrefixStore:
    """LRU cache of prefixes with at most ``capacity`` tokens in total. A longer prefix replaces its own beginnings."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.tokens = capacity, 0
        # No cache by key: a lookup is for the longest beginning, and a longer prefix drives out its own beginnings.
        self._prefixes: OrderedDict[int, Prefix] = OrderedDict()
        self._next = 0

    def longest(self, ids: Sequence[int]) -> tuple[int, Any]:
        """Return the length of the longest cached prefix of ``ids`` and its cache.

        At least one id is left to compute.
        """
        # Without the last id: its logits are needed to sample, and only a forward pass gives them.
        wanted = torch.tensor(ids[:-1], dtype=torch.long)
        best, key = 0, -1
        # A scan: there are as many prefixes as conversations fit into the capacity, and comparing ids is far cheaper
        # than computing them.
        for known, prefix in self._prefixes.items():
            if (length := count_common(prefix.ids, wanted)) > best:
                best, key = length, known
        if not best:
            return 0, empty_cache()
        self._prefixes.move_to_end(key)
        return best, build_cache(
            [(keys[:, :, :best], values[:, :, :best]) for keys, values in self._prefixes[key].layers]
        )

    def put(self, ids: Sequence[int], layers: Layers) -> None:
        """Store a prefix; the caller must not modify ``layers`` [1, heads, n, D] afterwards."""
        if not 0 < len(ids) <= self.capacity:
            return
        wanted = torch.tensor(ids, dtype=torch.long)
        for key, prefix in list(self._prefixes.items()):
            length = count_common(prefix.ids, wanted)
            if length == len(wanted):
                return self._prefixes.move_to_end(key)
            # A longer prefix serves every conversation that its own beginning does.
            if length == len(prefix.ids):
                self._drop(key)
        self._prefixes[self._next] = Prefix(wanted, layers)
        self._next += 1
        self.tokens += len(ids)
        # The first key is the least recently used one.
        while self.tokens > self.capacity:
            self._drop(next(iter(self._prefixes)))

    def _drop(self, key: int) -> None:
        self.tokens -= len(self._prefixes.pop(key).ids)


def count_common(one: torch.Tensor, other: torch.Tensor) -> int:
    """Return the length of the common prefix."""
    length = min(len(one), len(other))
    different = (one[:length] != other[:length]).nonzero()
    return int(different[0]) if len(different) else length
