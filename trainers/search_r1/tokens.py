"""Token columns with explicit masks.

Deriving masks from ``id != pad``, as the original does, loses every eos when eos and pad share an id; here the mask is
stored beside the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """A batch of padded token rows.

    ``ids`` [B, W] int64; ``mask`` [B, W] is 1 on tokens and 0 on padding; ``sampled`` [B, W] is 1 on tokens written by
    the model; ``log_probs`` [B, W] float32 are the rollout's, 0 where nothing was sampled.
    """

    ids: Tensor
    mask: Tensor
    sampled: Tensor
    log_probs: Tensor

    @classmethod
    def of(cls, ids: Tensor, mask: Tensor, sampled: Tensor | None = None, log_probs: Tensor | None = None) -> Tokens:
        """Build from ids and mask; nothing counts as sampled and log-probabilities are 0 unless given."""
        mask = mask.to(torch.int64)
        # Multiplied with the mask: what is padding cannot have been sampled, whatever a worker says.
        sampled = torch.zeros_like(mask) if sampled is None else sampled.to(torch.int64) * mask
        values = torch.zeros(ids.shape) if log_probs is None else log_probs.to(torch.float32)
        return cls(ids.to(torch.int64), mask, sampled, torch.where(sampled.bool(), values, 0.0))

    @classmethod
    def empty(cls, rows: int) -> Tokens:
        """Build with no columns."""
        return cls.of(torch.zeros(rows, 0, dtype=torch.int64), torch.zeros(rows, 0, dtype=torch.int64))

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]], pad: int, left: bool = False) -> Tokens:
        """Build from rows of different lengths, padded to the longest on the right, or on the left with ``left``."""
        width = max((len(row) for row in rows), default=0)
        ids, mask = torch.full((len(rows), width), pad), torch.zeros(len(rows), width, dtype=torch.int64)
        for number, row in enumerate(rows):
            place = slice(width - len(row), width) if left else slice(0, len(row))
            ids[number, place] = torch.tensor(list(row), dtype=torch.int64)
            mask[number, place] = 1
        return cls.of(ids, mask)

    @property
    def width(self) -> int:
        return int(self.ids.shape[1])

    @property
    def longest(self) -> int:
        """Return the number of tokens in the longest row."""
        return int(self.mask.sum(dim=1).max()) if self.width else 0

    @property
    def position_ids(self) -> Tensor:
        """Return position ids [B, W]: 0, 1, … on tokens, 0 on padding before them."""
        return (self.mask.cumsum(dim=1) - 1).clamp(min=0)

    def columns(self, place: slice) -> Tokens:
        """Select a slice of columns."""
        return Tokens(self.ids[:, place], self.mask[:, place], self.sampled[:, place], self.log_probs[:, place])

    def first(self, count: int) -> Tokens:
        """Select the first ``count`` columns."""
        return self.columns(slice(0, count))

    def last(self, count: int) -> Tokens:
        """Select the last ``count`` columns."""
        return self.columns(slice(max(0, self.width - count), self.width))

    def rows(self, chosen: Tensor) -> Tokens:
        """Select rows by index or boolean mask."""
        return Tokens(self.ids[chosen], self.mask[chosen], self.sampled[chosen], self.log_probs[chosen])

    def scatter(self, active: Tensor, pad: int) -> Tokens:
        """Scatter these rows to the places where ``active`` [B] is true; all other rows are padding."""
        shape = (len(active), self.width)
        zeros = torch.zeros(shape, dtype=torch.int64)
        ids, mask, sampled = torch.full(shape, pad, dtype=torch.int64), zeros.clone(), zeros
        log_probs = torch.zeros(shape)
        ids[active], mask[active], sampled[active] = self.ids, self.mask, self.sampled
        log_probs[active] = self.log_probs
        return Tokens(ids, mask, sampled, log_probs)

    def concat(self, *others: Tokens) -> Tokens:
        """Concatenate columns of this and the others, in order."""
        parts = (self, *others)
        return Tokens(
            torch.cat([part.ids for part in parts], dim=1),
            torch.cat([part.mask for part in parts], dim=1),
            torch.cat([part.sampled for part in parts], dim=1),
            torch.cat([part.log_probs for part in parts], dim=1),
        )

    def pack(self, left: bool = False) -> Tokens:
        """Move all padding behind the tokens, or with ``left`` before them; tokens keep their order."""
        # Stable, so that a sort by a two-valued key moves padding and leaves the tokens' order alone.
        order = torch.argsort(self.mask if left else 1 - self.mask, dim=1, stable=True)
        return Tokens(
            self.ids.gather(1, order),
            self.mask.gather(1, order),
            self.sampled.gather(1, order),
            self.log_probs.gather(1, order),
        )

    def spans(self, bounds: Sequence[tuple[int, int]], pad: int) -> Tokens:
        """Select the tokens from start to stop in each row, counted over its mask, right-padded."""
        place, limits = self.mask.cumsum(dim=1) - 1, torch.tensor(bounds, dtype=torch.int64).view(-1, 2)
        kept = self.mask * (place >= limits[:, :1]) * (place < limits[:, 1:])
        ids = torch.where(kept.bool(), self.ids, pad)
        found = Tokens.of(ids, kept, self.sampled * kept, self.log_probs).pack()
        return found.first(found.longest)

    def info_masked(self, pad: int) -> Tensor:
        """Return the ids [B, W], with ``pad`` in place of everything the model did not write."""
        return torch.where(self.sampled.bool(), self.ids, pad)


Decode = Callable[[Sequence[int]], str]


def fewest_ids(decode: Decode, ids: Sequence[int], length: int) -> int:
    """Return the smallest number of leading ids whose text has at least ``length`` characters."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(decode(ids[:middle])) >= length else (middle + 1, high)
    return low


def most_ids(decode: Decode, ids: Sequence[int], length: int) -> int:
    """Return the largest number of leading ids whose text has at most ``length`` characters."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(decode(ids[:middle])) <= length else (low, middle - 1)
    return low
