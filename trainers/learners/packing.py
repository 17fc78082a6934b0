"""Sequence packing: the rows of a pass as one sequence without padding, with attention within each row.

Positions [1, N] are those of the rows, N being all tokens that are not padding. Attention runs row by row over the
boundaries: no mask of N x N is made, and no token meets one of another row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fathom.core.errors import InvalidField
from fathom.trainers.learners.ranks.fsdp import layers

ATTENTION = "fathom_packed"
SETTING = "use_remove_padding"


@dataclass(frozen=True)
class Packing:
    """Rows joined to one sequence: ``present`` [B, S] marks their tokens, ``lengths`` counts those of each row."""

    present: Tensor
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, attention_mask: Tensor, wanted: Tensor) -> Packing:
        """Pack rows of which the positions ``wanted`` [B, S] are read.

        Raises ``InvalidField("attention_mask")`` for a row whose first token is to be predicted.
        """
        present = attention_mask.bool()
        # Padding is not computed here, and so predicts nothing.
        if bool((wanted & ~present).any()):
            row = int((wanted & ~present).any(dim=-1).nonzero()[0])
            raise InvalidField("attention_mask", f"row {row} begins with a token that padding would have to predict")
        return cls(present, tuple(present.sum(dim=-1).tolist()))

    def inputs(self, input_ids: Tensor, position_ids: Tensor) -> dict[str, Any]:
        """Build the trunk's input [1, N]; ``row_lengths`` reaches the attention of every layer."""
        return {
            "input_ids": input_ids[self.present].unsqueeze(0),
            "position_ids": position_ids[self.present].unsqueeze(0),
            "row_lengths": self.lengths,
        }

    def select(self, states: Tensor, wanted: Tensor) -> Tensor:
        """Return the states [n, H] at the positions ``wanted`` [B, S], of all states [1, N, H]."""
        return states[0][wanted[self.present]]


def install_packing(model: Any) -> None:
    """Let ``model``'s attention respect row boundaries.

    Raises ``InvalidField("use_remove_padding")`` for a model that mixes tokens by other means than attention, such as
    convolutions or recurrences, or with attention that this one does not compute.
    """
    for layer in layers(model):
        # Any other mixture of tokens would run across the boundaries without a sign of it.
        if not any(getattr(module, "is_causal", False) for module in layer.modules()):
            raise InvalidField(SETTING, f"{type(layer).__name__} has no causal attention: rows would mix in it")
    kinds = set(getattr(model.config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds or getattr(model.config, "attn_logit_softcapping", None):
        raise InvalidField(SETTING, f"attention of {type(model).__name__} is not supported: {sorted(kinds)}")
    # By transformers' own registry, as for sequence parallelism: no model class is changed.
    AttentionInterface.register(ATTENTION, attend_within_rows)
    model.set_attn_implementation(ATTENTION)


def attend_within_rows(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    row_lengths: Sequence[int],
    sliding_window: int | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Attend causally within each row of ``query`` [1, heads, N, d]; returns [1, N, heads, d]."""
    # Not a tensor of lengths: reading it here would make every layer wait for the device.
    rows = zip(*(states.split(list(row_lengths), dim=2) for states in (query, key, value)), strict=True)
    found = [sdpa_attention_forward(module, q, k, v, window_mask(q, sliding_window), **settings)[0] for q, k, v in rows]
    return torch.cat(found, dim=1), None


def window_mask(query: Tensor, window: int | None) -> Tensor | None:
    """Return the mask of a row longer than the attention's window; None where causality suffices."""
    width = query.shape[2]
    if window is None or width <= window:
        return None
    # A token sees itself and the window - 1 tokens before it, as in transformers' own masks.
    ones = torch.ones(width, width, dtype=torch.bool, device=query.device)
    return (ones.tril() & ones.triu(1 - window)).view(1, 1, width, width)


def fill_passes(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Return row numbers in passes of at most ``max_tokens`` tokens together, the longest rows first.

    A row longer than the limit has a pass of its own. Every row occurs once.
    """
    found: list[list[int]] = []
    room: list[int] = []
    # First fit of decreasing lengths needs at most 11/9 of the fewest passes possible.
    for row in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        place = next((number for number, free in enumerate(room) if free >= lengths[row]), None)
        if place is None:
            found.append([row])
            room.append(max_tokens - lengths[row])
        else:
            found[place].append(row)
            room[place] -= lengths[row]
    return found
