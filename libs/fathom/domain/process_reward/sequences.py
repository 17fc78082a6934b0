"""Token sequences with a mask of the sampled tokens: padding and micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fathom.core.errors import InvalidField


@dataclass(frozen=True)
class Sequences:
    """Rows of prompt and response. Position t of every quantity belongs to the token at t.

    ``input_ids`` [B, S] int64; ``attention_mask`` [B, S] 1 on tokens that are not padding, on either side; ``mask`` [B,
    S] 1 on tokens that the model sampled. The first column's token has nothing before it: its mask is 0.
    """

    input_ids: Tensor
    attention_mask: Tensor
    mask: Tensor

    def __post_init__(self) -> None:
        """Check shapes and masks; raise ``InvalidField`` naming the one that does not fit."""
        if self.input_ids.dim() != 2 or not len(self.input_ids):
            raise InvalidField("input_ids", f"has shape {list(self.input_ids.shape)}, not [B, S]")
        for name, tensor in (("attention_mask", self.attention_mask), ("mask", self.mask)):
            if tensor.shape != self.input_ids.shape:
                raise InvalidField(name, f"has shape {list(tensor.shape)}, input_ids {list(self.input_ids.shape)}")
        kept = self.mask.bool()
        if bool((kept & ~self.attention_mask.bool()).any()):
            raise InvalidField("mask", "is 1 on padding")
        if not bool(kept.any(dim=-1).all()):
            raise InvalidField("mask", f"row {int((~kept.any(dim=-1)).nonzero()[0])} has no sampled token")
        # Shifted by one: 1 where the token before exists, without which the model has no prediction for this one.
        first = torch.nn.functional.pad(self.attention_mask.bool(), (1, 0))[:, :-1]
        if bool((kept & ~first).any()):
            row = int((kept & ~first).any(dim=-1).nonzero()[0])
            raise InvalidField("mask", f"row {row} begins with a sampled token: nothing predicts it")

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row without padding."""
        return [int(length) for length in self.attention_mask.sum(dim=-1).tolist()]

    def rows(self, indices: Sequence[int]) -> tuple[Sequences, int, int]:
        """Return these rows without columns that are all padding, and the first and the end column kept."""
        chosen = torch.tensor(list(indices), device=self.input_ids.device)
        attention = self.attention_mask[chosen]
        columns = attention.bool().any(dim=0).nonzero().squeeze(-1)
        start, end = int(columns[0]), int(columns[-1]) + 1
        return (
            Sequences(self.input_ids[chosen, start:end], attention[:, start:end], self.mask[chosen, start:end]),
            start,
            end,
        )


def pad(token_ids: Sequence[Sequence[int]], masks: Sequence[Sequence[int]], pad_id: int = 0) -> Sequences:
    """Return right-padded rows of lists; raises ``InvalidField`` like :class:`Sequences`."""
    width = max(map(len, token_ids), default=0)
    shape = (len(token_ids), width)
    ids, attention, mask = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
    ids += pad_id
    for row, (tokens, sampled) in enumerate(zip(token_ids, masks, strict=True)):
        if len(tokens) != len(sampled):
            raise InvalidField("mask", f"of row {row} has {len(sampled)} entries for {len(tokens)} tokens")
        ids[row, : len(tokens)] = torch.tensor(list(tokens), dtype=torch.int64)
        mask[row, : len(tokens)] = torch.tensor([int(bool(one)) for one in sampled])
        # By length, not by comparing with pad_id: the padding token may occur in a text.
        attention[row, : len(tokens)] = 1
    return Sequences(ids, attention, mask)


def micro_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Return row numbers in batches whose padded size, rows times the longest, is at most ``max_tokens``.

    A row longer than the limit has a batch of its own. Every row occurs once.
    """
    batches: list[list[int]] = []
    # Sorted, so that rows of like length share a batch and little is padding.
    for row in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        # The first of a batch is its longest.
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches
