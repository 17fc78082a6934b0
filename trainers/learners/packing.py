"""Sequence packing: the rows of a pass as one sequence without padding, with attention within each row.

Positions [1, N] are those of the rows, N being all tokens that are not padding. Rows with equal prompts, as the samples
of a group, have it once: its states depend on nothing after it, and its gradient is the sum of theirs. Attention runs
row by row over the boundaries: no mask of N x N is made, and no token meets one of another row's response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.learners.ranks.fsdp import layers

ATTENTION = "fathom_packed"
SETTING = "use_remove_padding"
JOIN_TOKENS = partial(torch.cat, dim=2)


class RowPlace(NamedTuple):
    """Place of a row in the sequence: the tokens that an earlier row has for it, with their number, then its own."""

    shared: slice
    shared_tokens: int
    own: slice


@dataclass(frozen=True)
class Packing:
    """Rows joined to one sequence.

    ``computed`` [B, S] marks the tokens of the sequence, ``index`` [B, S] has the place in it of every token that is
    not padding, and ``rows`` the places of all rows.
    """

    computed: Tensor
    index: Tensor
    rows: tuple[RowPlace, ...]

    @classmethod
    def of(cls, data: DataProto, wanted: Tensor) -> Packing:
        """Pack rows of which the positions ``wanted`` [B, S] are read.

        Raises ``InvalidField("attention_mask")`` for a row whose first token is to be predicted.
        """
        present = data.tensor("attention_mask").bool()
        # Padding is not computed here, and so predicts nothing.
        if bool((wanted & ~present).any()):
            row = int((wanted & ~present).any(dim=-1).nonzero()[0])
            raise InvalidField("attention_mask", f"row {row} begins with a token that padding would have to predict")
        width, heads = data.tensor("prompts").shape[1], find_prompt_heads(data)
        first = torch.tensor(heads, device=present.device)
        computed = present.clone()
        computed[:, :width] &= (first == torch.arange(len(heads), device=present.device)).unsqueeze(-1)
        # Padding gets the place of the token before it, which nobody reads: wanted positions are never padding.
        index = (computed.flatten().cumsum(0) - 1).view(computed.shape)
        # Prompts are left-padded: equal ones stand in the same columns.
        index[:, :width] = index[first, :width]
        return cls(
            computed, index, place_rows(heads, computed.sum(dim=-1).tolist(), present[:, :width].sum(dim=-1).tolist())
        )

    def inputs(self, input_ids: Tensor, position_ids: Tensor) -> dict[str, Any]:
        """Build the trunk's input [1, N]; ``row_places`` reaches the attention of every layer."""
        return {
            "input_ids": input_ids[self.computed].unsqueeze(0),
            "position_ids": position_ids[self.computed].unsqueeze(0),
            "row_places": self.rows,
        }

    def select(self, states: Tensor, wanted: Tensor) -> Tensor:
        """Return the states [n, H] at the positions ``wanted`` [B, S], of all states [1, N, H]."""
        return states[0][self.index[wanted]]


def find_prompt_heads(data: DataProto) -> list[int]:
    """Return for each row the first row with the same prompt, which may be itself."""
    width = data.tensor("prompts").shape[1]
    mask = data.tensor("attention_mask")[:, :width]
    # Padding is multiplied away, since its ids and positions may differ between rows of one prompt.
    # Positions too: the same words at other places have other states.
    prompts = torch.cat(
        (data.tensor("input_ids")[:, :width] * mask, data.tensor("position_ids")[:, :width] * mask, mask), 1
    )
    kinds = torch.unique(prompts, dim=0, return_inverse=True)[1].tolist()
    first: dict[int, int] = {}
    return [first.setdefault(kind, row) for row, kind in enumerate(kinds)]


def place_rows(heads: Sequence[int], tokens: Sequence[int], prompts: Sequence[int]) -> tuple[RowPlace, ...]:
    """Return the places of rows with ``tokens`` of their own each, whose ``prompts`` tokens their heads have."""
    places: list[RowPlace] = []
    start = 0
    for row, (head, count) in enumerate(zip(heads, tokens, strict=True)):
        begin = start if head == row else places[head].own.start
        shared_tokens = 0 if head == row else prompts[row]
        shared = slice(begin, begin + shared_tokens)
        places.append(RowPlace(shared, shared_tokens, slice(start, start + count)))
        start += count
    return tuple(places)


def find_obstacle(model: Any) -> str:
    """Return why rows of ``model`` cannot be joined; "" where they can.

    It mixes tokens by other means than attention, such as convolutions or recurrences, or with attention that
    ``attend_within_rows`` does not compute.
    """
    for layer in layers(model):
        # Any other mixture of tokens would run across the boundaries without a sign of it.
        if not any(getattr(module, "is_causal", False) for module in layer.modules()):
            return f"{type(layer).__name__} has no causal attention: rows would mix in it"
    kinds = set(getattr(model.config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if kinds or getattr(model.config, "attn_logit_softcapping", None):
        return f"attention of {type(model).__name__} is not supported: {sorted(kinds)}"
    return ""


def install_packing(model: Any) -> None:
    """Let ``model``'s attention respect row boundaries.

    Raises ``InvalidField("use_remove_padding")`` where it cannot.
    """
    if obstacle := find_obstacle(model):
        raise InvalidField(SETTING, obstacle)
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
    row_places: Sequence[RowPlace],
    sliding_window: int | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Attend causally within each row of ``query`` [1, heads, N, d]; returns [1, N, heads, d]."""
    found = []
    # Not a tensor of places: reading it here would make every layer wait for the device.
    for row in row_places:
        # A row that shares nothing is a view of the sequence, and spared the copy.
        q, k, v = (query[:, :, row.own], key[:, :, row.own], value[:, :, row.own])
        if row.shared_tokens:
            shared = (query[:, :, row.shared], key[:, :, row.shared], value[:, :, row.shared])
            q, k, v = map(JOIN_TOKENS, zip(shared, (q, k, v), strict=True))
        mask = None if sliding_window is None else window_mask(q, sliding_window)
        states = sdpa_attention_forward(module, q, k, v, mask, **settings)[0]
        # Queries of a shared prompt are asked again and dropped: only so is the row plainly causal, which the fast
        # kernels want, and all else of the prompt, the matrices, is computed once.
        found.append(states[:, row.shared_tokens :])
    return torch.cat(found, dim=1), None


def window_mask(query: Tensor, window: int) -> Tensor | None:
    """Return the mask of a row longer than the attention's window; None where causality suffices."""
    width = query.shape[2]
    if width <= window:
        return None
    # A token sees itself and the window - 1 tokens before it, as in transformers' own masks.
    ones = torch.ones(width, width, dtype=torch.bool, device=query.device)
    return (ones.tril() & ones.triu(1 - window)).view(1, 1, width, width)


def fill_passes(
    lengths: Sequence[int], max_tokens: int, heads: Sequence[int] | None = None, prompts: Sequence[int] = ()
) -> list[list[int]]:
    """Return row numbers in passes of at most ``max_tokens`` tokens together, the longest rows first.

    Rows with the same of ``heads`` share their ``prompts`` tokens, which count once in a pass; such rows stay together
    as far as the limit allows. A row longer than the limit has a pass of its own. Every row occurs once.
    """
    bundles = bundle_rows(lengths, max_tokens, range(len(lengths)) if heads is None else heads, prompts)
    found: list[list[int]] = []
    room: list[int] = []
    # First fit of decreasing lengths needs at most 11/9 of the fewest passes possible.
    for rows, tokens in sorted(bundles, key=lambda bundle: -bundle[1]):
        place = next((number for number, free in enumerate(room) if free >= tokens), None)
        if place is None:
            found.append(rows)
            room.append(max_tokens - tokens)
        else:
            found[place] += rows
            room[place] -= tokens
    return found


def bundle_rows(
    lengths: Sequence[int], max_tokens: int, heads: Sequence[int], prompts: Sequence[int]
) -> list[tuple[list[int], int]]:
    """Return rows of one head that fit into a pass together, the longest first, with their tokens."""
    families: dict[int, list[int]] = {}
    for row, head in enumerate(heads):
        families.setdefault(head, []).append(row)
    found: list[tuple[list[int], int]] = []
    for family in families.values():
        rows: list[int] = []
        tokens = 0
        # The longest first, so that what is left of a family that is cut is short and finds room beside others.
        for row in sorted(family, key=lambda index: -lengths[index]):
            # The first row of a bundle brings the prompt, and the others add their responses alone.
            more = lengths[row] - (prompts[row] if rows else 0)
            if rows and tokens + more > max_tokens:
                found.append((rows, tokens))
                rows, tokens, more = [], 0, lengths[row]
            rows.append(row)
            tokens += more
        found.append((rows, tokens))
    return found
