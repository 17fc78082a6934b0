"""BERT inference on a CPU without padding: the texts of a batch are concatenated into one matrix of tokens.

Same weights and 32-bit arithmetic as the library's model. It saves the padding, merges three products per layer into
one, and avoids thread synchronisation inside an operation: each of ``threads`` workers computes its own texts with one
thread. Measured for questions of 12 tokens, 32 at a time, on two processors: 1.4 ms per question instead of 2.7.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fathom.domain.encoders.packing import Rows, Stretch, group_by_length, split_rows

# Number of rows the weight layout is optimised for; other numbers work too.
ROWS_HINT = 400


class Linear:
    """A linear layer whose weights are laid out once for oneDNN, where this PyTorch supports it."""

    def __init__(self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor]) -> None:
        """Merge several layers with the same input into one; their outputs are concatenated."""
        self._weight, self._bias = torch.cat(list(weights)).detach(), torch.cat(list(biases)).detach()
        self._product: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
        reorder: Any = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
        if self._product is None or reorder is None or not torch.backends.mkldnn.is_available():
            self._product = None
        else:
            self._weight = reorder(self._weight, ROWS_HINT)

    def __call__(self, rows: torch.Tensor, *, gelu: bool = False) -> torch.Tensor:
        """Return [rows, out] of [rows, in]; ``gelu`` applies the exact GELU, by the error function."""
        if self._product is not None:
            kind: tuple[str, list[float], str] = ("gelu", [], "none") if gelu else ("none", [], "")
            product: torch.Tensor = self._product(rows, self._weight, self._bias, *kind)
            return product
        product = functional.linear(rows, self._weight, self._bias)
        return functional.gelu(product) if gelu else product


@dataclass(frozen=True)
class Block:
    """One transformer layer: attention and feed-forward, each with its residual and norm."""

    attend: Linear
    attended: Linear
    norm_attended: torch.nn.Module
    widen: Linear
    narrow: Linear
    norm: torch.nn.Module

    @classmethod
    def of(cls, layer: Any) -> Block:
        """Build from a layer of the library's BERT."""
        own, dense = layer.attention.self, layer.attention.output.dense
        parts = (own.query, own.key, own.value)
        return cls(
            Linear([part.weight for part in parts], [part.bias for part in parts]),
            Linear([dense.weight], [dense.bias]),
            layer.attention.output.LayerNorm,
            Linear([layer.intermediate.dense.weight], [layer.intermediate.dense.bias]),
            Linear([layer.output.dense.weight], [layer.output.dense.bias]),
            layer.output.LayerNorm,
        )


class PackedBert:
    """BERT encoder without padding. Read-only after construction; thread-safe."""

    def __init__(self, model: Any, pooling: Literal["mean", "first"], threads: int) -> None:
        """Copy the needed weights of the library's ``BertModel`` in eval mode; see ``is_packable``."""
        embeddings = model.embeddings
        self._words, self._norm = embeddings.word_embeddings, embeddings.LayerNorm
        self._places = (embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]).detach()
        self._heads, self._first = int(model.config.num_attention_heads), pooling == "first"
        self._blocks = [Block.of(layer) for layer in model.encoder.layer]
        self._workers = threads
        self._pool = start_workers(threads)

    def __call__(self, rows: Rows) -> NDArray[np.float32]:
        """Return pooled states [texts, dim], not of unit length, of texts as token ids, none of them empty."""
        parts = split_rows(rows, self._workers)
        pooled = list(self._pool.map(lambda part: self._pool_states([rows[at] for at in part]), parts))
        result = np.empty((len(rows), self._places.shape[1]), dtype=np.float32)
        for part, found in zip(parts, pooled, strict=True):
            result[part] = found
        return result

    @torch.inference_mode()
    def _pool_states(self, rows: Rows) -> NDArray[np.float32]:
        """Return pooled states of texts sorted by length."""
        stretches = list(group_by_length(rows))
        ids = torch.tensor([token for row in rows for token in row])
        places = torch.tensor([place for row in rows for place in range(len(row))])
        states = self._norm(self._words(ids) + self._places[places])
        for block in self._blocks:
            states = self._through(block, states, stretches)
        found = [
            texts[:, 0] if self._first else texts.mean(1)
            for texts in (states[each.rows].view(each.count, each.length, -1) for each in stretches)
        ]
        pooled: NDArray[np.float32] = torch.cat(found).numpy()
        return pooled

    def _through(self, block: Block, states: torch.Tensor, stretches: Sequence[Stretch]) -> torch.Tensor:
        seen = block.attend(states)
        context = torch.empty_like(states)
        for each in stretches:
            shape = (each.count, each.length, -1, self._heads, states.shape[1] // self._heads)
            query, key, value = seen[each.rows].view(shape).permute(2, 0, 3, 1, 4)
            heads = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)
            context[each.rows] = heads.reshape(-1, states.shape[1])
        states = block.norm_attended(block.attended(context) + states)
        narrowed: torch.Tensor = block.norm(block.narrow(block.widen(states, gelu=True)) + states)
        return narrowed


def is_packable(model: Any) -> bool:
    """Return True for a plain BERT encoder with absolute positions and the exact GELU."""
    config = model.config
    return (
        type(model).__name__ == "BertModel"
        and config.hidden_act == "gelu"
        and getattr(config, "position_embedding_type", None) in (None, "absolute")
        and not getattr(config, "is_decoder", False)
    )


def start_workers(threads: int) -> ThreadPoolExecutor:
    """Start a pool of workers that run PyTorch with one thread each."""
    # PyTorch keeps the number per thread, but new threads inherit the latest setting; so wait until every worker has
    # set its own, then restore the caller's.
    before, gate = torch.get_num_threads(), threading.Barrier(threads + 1)

    def settle() -> None:
        torch.set_num_threads(1)
        gate.wait()

    pool = ThreadPoolExecutor(threads, thread_name_prefix="encoder", initializer=settle)
    for _ in range(threads):
        pool.submit(int)
    gate.wait()
    torch.set_num_threads(before)
    return pool
