"""Rows that are sampled together: requests join and leave between tokens. Blocking; one thread at a time.

The key-value cache is left-padded: all rows end at the same column. A row that joins is prefilled on its own
and padded to the others' length; a row that leaves takes its share of the cache with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from fathom.protocol.messages import FinishReason, Sampling
from services.policy.backends.text import TextStream
from services.policy.backends.transformers.sampling import log_probabilities, sample

PREFILL_CHUNK = 512


@dataclass(eq=False)
class Row:
    """One request in the batch. ``left`` may be set by any thread; the row is then dropped before its next token."""

    prompt: list[int]
    sampling: Sampling
    max_new: int
    end_ids: frozenset[int]
    source: torch.Generator
    text: TextStream
    sampled: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    left: bool = False

    def take(self, logits: torch.Tensor) -> str:
        """Samples one id from logits [V] and returns the text that it completes."""
        token, log_prob = sample(logits, self.sampling, self.source)
        self.sampled.append(token)
        self.log_probs.append(log_prob)
        if token in self.end_ids:
            self.finish = FinishReason.STOP
            return self.text.rest()
        piece = self.text.push(token)
        if self.text.stopped():
            self.finish = FinishReason.STOP
        elif len(self.sampled) >= self.max_new:
            self.finish = FinishReason.LENGTH
        return piece + self.text.rest() if self.finish else piece

    @property
    def gone(self) -> bool:
        return self.left or self.finish is not None


class Batch:
    """All rows of one model version."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.rows: list[Row] = []
        self._cache: Any = DynamicCache()
        self._mask = torch.zeros(0, 0, dtype=torch.long)
        """[rows, columns]: 1 on real tokens, 0 on padding."""

    @torch.inference_mode()
    def step(self, joining: Sequence[Row]) -> list[tuple[Row, str]]:
        """One more token for every row; returns the rows with the text that it completed."""
        self._keep([index for index, row in enumerate(self.rows) if not row.gone])
        logits = [self._advance()] if self.rows else []
        for row in joining:
            if (first := self._join(row)) is not None:
                logits.append(first)
        if not self.rows:
            return []
        return [(row, row.take(row_logits)) for row, row_logits in zip(self.rows, torch.cat(logits), strict=True)]

    def _advance(self) -> torch.Tensor:
        """Feeds each row's last id; returns the next logits [rows, V]."""
        ids = torch.tensor([[row.sampled[-1]] for row in self.rows])
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self.rows), 1)], dim=1)
        return forward(self._network, ids, self._mask, self._cache)

    def _join(self, row: Row) -> torch.Tensor | None:
        """Prefills a row and adds it to the batch; returns its logits [1, V], or None when it left meanwhile."""
        cache, logits = DynamicCache(), None
        ids, mask = torch.tensor([row.prompt]), torch.ones(1, len(row.prompt), dtype=torch.long)
        for start in range(0, ids.shape[1], PREFILL_CHUNK):
            if row.left:
                return None
            end = start + PREFILL_CHUNK
            logits = forward(self._network, ids[:, start:end], mask[:, :end], cache)
        if self.rows:
            width = max(self._mask.shape[1], mask.shape[1])
            self._cache = stacked(self._cache, cache, width)
            self._mask = torch.cat([padded(self._mask, width, 1), padded(mask, width, 1)])
        else:
            self._cache, self._mask = cache, mask
        self.rows.append(row)
        return logits

    def _keep(self, indices: list[int]) -> None:
        """Only these rows stay; columns that are padding in all of them go."""
        if len(indices) == len(self.rows):
            return
        self.rows = [self.rows[index] for index in indices]
        if not indices:
            self._cache, self._mask = DynamicCache(), self._mask.new_zeros(0, 0)
            return
        chosen = torch.tensor(indices)
        mask = self._mask[chosen]
        first = int(mask.any(dim=0).int().argmax())
        self._mask = mask[:, first:].contiguous()
        self._cache = DynamicCache(
            [(layer.keys[chosen, :, first:], layer.values[chosen, :, first:]) for layer in self._cache.layers]
        )


def forward(network: Any, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
    """Feeds ids [rows, n], the last n columns of ``mask``; returns the logits [rows, V] after the last of them."""
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    output = network(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits


def stacked(upper: Any, lower: Any, width: int) -> DynamicCache:
    """Both caches' rows in one cache of ``width`` columns, padded on the left."""
    layers = zip(upper.layers, lower.layers, strict=True)
    return DynamicCache(
        [
            (
                torch.cat([padded(a.keys, width, 2), padded(b.keys, width, 2)]),
                torch.cat([padded(a.values, width, 2), padded(b.values, width, 2)]),
            )
            for a, b in layers
        ]
    )


def padded(tensor: torch.Tensor, width: int, axis: int) -> torch.Tensor:
    """``tensor`` with zeros on the left of ``axis`` up to ``width``."""
    missing = width - tensor.shape[axis]
    if missing == 0:
        return tensor
    shape = list(tensor.shape)
    shape[axis] = missing
    return torch.cat([tensor.new_zeros(shape), tensor], dim=axis)


@torch.inference_mode()
def score(network: Any, ids: Sequence[int], temperature: float) -> list[float]:
    """Log-probability in nats of each id given those before it, logits divided by temperature; 0.0 for the first."""
    cache: Any = DynamicCache()
    log_probs = [0.0]
    tokens = torch.tensor([list(ids)])
    # In chunks with a cache: the logits of a whole window would take gigabytes.
    for start in range(0, len(ids) - 1, PREFILL_CHUNK):
        chunk = tokens[:, start : min(start + PREFILL_CHUNK, len(ids) - 1)]
        end = start + chunk.shape[1]
        positions = torch.arange(start, end)[None]
        output = network(input_ids=chunk, position_ids=positions, past_key_values=cache, use_cache=True)
        following = tokens[0, start + 1 : end + 1]
        log_probs += log_probabilities(output.logits[0], temperature).gather(1, following[:, None])[:, 0].tolist()
    return log_probs
