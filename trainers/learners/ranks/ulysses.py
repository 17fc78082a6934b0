"""Sequence parallelism by attention heads (Ulysses, arXiv 2309.14509): ranks share every sequence of a batch.

Each rank holds S / sp columns of all rows. Around attention, an all-to-all exchanges columns for heads, so that a rank
attends over the whole sequence with 1 / sp of the heads; all other layers work on single tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fathom.core.errors import InvalidField
from fathom.trainers.learners.ranks.fsdp import device_kind

ATTENTION = "fathom_ulysses"


@dataclass(frozen=True)
class Split:
    """A group of ranks that share sequences: ``size`` ranks, of which this process is ``rank``."""

    group: Any
    size: int
    rank: int

    @classmethod
    def of(cls, size: int, model: Any) -> Split | None:
        """Form groups of ``size`` neighbouring ranks and install the exchange in ``model``'s attention.

        Returns None for a size of 1. Call on all ranks alike. Raises ``InvalidField("ulysses_sequence_parallel_size")``
        when the size does not divide the number of ranks or heads.
        """
        if size == 1:
            return None
        name = "ulysses_sequence_parallel_size"
        ranks = distributed.get_world_size() if distributed.is_initialized() else 1
        if ranks % size:
            raise InvalidField(name, f"{size} does not divide {ranks} ranks")
        heads = int(model.config.num_attention_heads)
        # Each rank attends with heads / size heads, which must be whole.
        if heads % size:
            raise InvalidField(name, f"{size} does not divide {heads} heads")
        # Neighbouring ranks share a sequence: they are usually on one machine, and attention exchanges twice per layer.
        mesh = init_device_mesh(device_kind(), (ranks // size, size), mesh_dim_names=("dp", "sp"))["sp"]
        split = cls(mesh.get_group(), size, mesh.get_local_rank())
        # By transformers' own registry: no model class is changed, and every architecture that asks it is served.
        AttentionInterface.register(ATTENTION, attention)
        model.set_attn_implementation(ATTENTION)
        # Attention finds the ranks at its own module: nothing is kept outside the model.
        for module in model.modules():
            if hasattr(module, "layer_idx"):
                module.fathom_split = split
        return split

    def own(self, values: Tensor) -> Tensor:
        """Return this rank's columns [B, s] of [B, S], zero-padded to a multiple of the group size."""
        # An all-to-all needs parts of equal size; the padding is cut off again by the response columns.
        values = pad(values, (0, -values.shape[1] % self.size))
        width = values.shape[1] // self.size
        return values[:, self.rank * width : (self.rank + 1) * width]

    def inputs(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> dict[str, Tensor]:
        """Build the trunk's input from this rank's columns.

        The attention mask [B, 1, S, S] (True attends) covers whole sequences.
        """
        present = pad(attention_mask.bool(), (0, -attention_mask.shape[1] % self.size))
        width = present.shape[1]
        # Causality in whole sequences: within a rank's columns alone, the attention's own causal flag would be wrong
        # for all ranks but the first.
        causal = torch.ones(width, width, dtype=torch.bool, device=present.device).tril()
        # A padding token sees itself: a row without anything to see would be NaN.
        mask = (causal & present[:, None, :]) | torch.eye(width, dtype=torch.bool, device=present.device)
        return {
            "input_ids": self.own(input_ids),
            "attention_mask": mask.unsqueeze(1),
            "position_ids": self.own(position_ids),
        }

    def gather(self, values: Tensor) -> Tensor:
        """Gather all ranks' columns [B, s] to [B, S] in order; each rank's gradient flows to its own columns only."""
        whole: Tensor = _Gather.apply(values, self)  # type: ignore[no-untyped-call]
        return whole


class _Gather(torch.autograd.Function):
    """All-gather along columns, whose backward keeps this rank's slice of the gradient."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, split: Split) -> Tensor:
        ctx.split, ctx.width = split, values.shape[1]
        parts = [torch.empty_like(values) for _ in range(split.size)]
        # Collectives read raw memory: a view with strides would be sent in the wrong order.
        distributed.all_gather(parts, values.contiguous(), group=split.group)
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # No reduction: all ranks compute the same loss from the gathered values.
        start = ctx.split.rank * ctx.width
        return gradients[0][:, start : start + ctx.width].contiguous(), None


class _Trade(torch.autograd.Function):
    """All-to-all exchange along two dimensions.

    ``values`` is split along ``out`` into one part per rank; the received parts are joined along ``into``.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, out: int, into: int, split: Split) -> Tensor:
        ctx.out, ctx.into, ctx.split = out, into, split
        return trade(values, out, into, split)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        # The exchange is a permutation of elements over ranks: its gradient is the exchange back.
        return trade(gradients[0], ctx.into, ctx.out, ctx.split), None, None, None


def trade(values: Tensor, out: int, into: int, split: Split) -> Tensor:
    """Exchange parts among the ranks; the size of dimension ``out`` must be a multiple of the group size."""
    # all_to_all_single sends the i-th part of the first dimension to rank i.
    sent = torch.stack(values.chunk(split.size, dim=out)).contiguous()
    received = torch.empty_like(sent)
    distributed.all_to_all_single(received, sent, group=split.group)
    return torch.cat(list(received), dim=into)


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    """Attend with ``query`` [B, heads, s, d] over whole sequences; returns [B, s, heads, d]."""
    split: Split = module.fathom_split
    groups = query.shape[1] // key.shape[1]
    if key.shape[1] % split.size:
        # Fewer key heads than ranks can share: each query head brings a copy of its own.
        key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
        groups = 1
    # [B, heads, s, d] to [B, heads / size, S, d]: split along heads, joined along columns.
    query, key, value = (_Trade.apply(states, 1, 2, split) for states in (query, key, value))  # type: ignore[no-untyped-call]
    key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))
    heads: Any = Heads()
    # The result is [B, S, heads / size, d], so that the way back again splits dimension 1 and joins dimension 2.
    found, _ = sdpa_attention_forward(heads, query, key, value, attention_mask, **settings)
    return _Trade.apply(found, 1, 2, split), None  # type: ignore[no-untyped-call]


class Heads:
    """Stand-in for the attention module: as many key heads as query heads, causality given by the mask alone."""

    # Key heads were repeated above; the library would repeat them once more.
    num_key_value_groups = 1
    is_causal = False
