"""Forward passes: log-probabilities, entropies and values of response tokens, and the split into micro-batches.

Shapes: B rows, P prompt columns, T response columns, S = P + T, V vocabulary. Column t belongs to response token t and
is computed at position P + t - 1, which predicts that token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.sequences import micro_batches
from fathom.trainers.batch import DataProto
from fathom.trainers.config.learning import BatchingConfig
from fathom.trainers.learners.output_layer import token_scores
from fathom.trainers.learners.packing import Packing, fill_passes, find_prompt_heads
from fathom.trainers.learners.ranks.fsdp import max_over_ranks
from fathom.trainers.learners.ranks.ulysses import Split


class Tokens(NamedTuple):
    """Scores of response tokens.

    ``log_probs`` [B, T] float32 with gradient; ``entropy`` [B, T] float32, if requested.
    """

    log_probs: Tensor
    entropy: Tensor | None = None


def response_tokens(
    model: Any,
    data: DataProto,
    temperature: float,
    *,
    entropy: bool = False,
    trained: bool = False,
    split: Split | None = None,
    packed: bool = False,
) -> Tokens:
    """Compute log-probabilities of the response tokens at the rollout's sampling ``temperature``; 0 on padding.

    ``data`` has prompts, responses, input_ids, attention_mask and position_ids; padding on either side does not change
    the result. The entropy is that of the same scaled logits. With ``trained`` only tokens in the response_mask are
    computed, the rest is 0. With ``split``, its ranks share every sequence (sequence parallelism). With ``packed``,
    rows are computed as one sequence without padding, equal prompts once (``install_packing``).
    """
    positions = Positions.of(data, split, trained=trained, packed=packed)
    # Decoder and output layer apart: logits of all positions would be [B, S, V], far larger than the model's
    # activations.
    hidden = positions.hidden_states(model.get_decoder(), data)
    weight = model.get_output_embeddings().weight
    # A custom autograd function does not run its backward pass under autocast: the type is chosen here, for both
    # passes.
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    found = token_scores(hidden, weight, positions.targets, temperature, entropy=entropy)
    return Tokens(positions.scatter(found.log_probs), positions.scatter(found.entropy) if entropy else None)


def response_values(
    trunk: Any, head: Module, data: DataProto, split: Split | None = None, *, packed: bool = False
) -> Tensor:
    """Return values [B, T] float32: ``head`` applied to the state before each response token, 0 on padding."""
    positions = Positions.of(data, split, packed=packed)
    return positions.scatter(head(positions.hidden_states(trunk, data)).squeeze(-1))


@dataclass(frozen=True)
class Positions:
    """The positions that predict a response token.

    ``wanted`` [B, S] marks them among this rank's columns, N in number; ``targets`` [N] int64 are the predicted tokens.
    """

    wanted: Tensor
    targets: Tensor
    response: slice
    split: Split | None
    packing: Packing | None = None

    @classmethod
    def of(cls, data: DataProto, split: Split | None, *, trained: bool = False, packed: bool = False) -> Positions:
        """Select the positions before non-padding response tokens.

        With ``trained``, only those before tokens in the response_mask.
        """
        ids, width = data.tensor("input_ids"), data.tensor("responses").shape[1]
        # Shifted by one: the logits at a position predict the token that follows it.
        response = slice(ids.shape[1] - width - 1, ids.shape[1] - 1)
        present = data.tensor("response_mask") if trained else data.tensor("attention_mask")[:, -width:]
        wanted = torch.zeros_like(ids, dtype=torch.bool)
        wanted[:, response] = present.bool()
        # Rolled before the split: the last column of a rank is followed by the first of its neighbour. The wrap at the
        # end is never selected.
        following = ids.roll(-1, dims=1)
        if split is not None:
            wanted, following = split.own(wanted), split.own(following)
        packing = Packing.of(data, wanted) if packed else None
        return cls(wanted, following[wanted], response, split, packing)

    def hidden_states(self, trunk: Any, data: DataProto) -> Tensor:
        """Return the trunk's last hidden states [N, H] at these positions."""
        inputs = {name: data.tensor(name) for name in ("input_ids", "attention_mask", "position_ids")}
        if self.split is not None:
            inputs = self.split.inputs(**inputs)
        if self.packing is not None:
            inputs = self.packing.inputs(inputs["input_ids"], inputs["position_ids"])
        # The key-value cache serves generation only, and holding it would keep all of it alive for the backward pass.
        states: Tensor = trunk(**inputs, use_cache=False).last_hidden_state
        return states[self.wanted] if self.packing is None else self.packing.select(states, self.wanted)

    def scatter(self, values: Tensor) -> Tensor:
        """Scatter values [N] to [B, T] float32, 0 elsewhere, combining all ranks of the split."""
        spread = torch.zeros(self.wanted.shape, dtype=torch.float32, device=values.device)
        # Out of place, so that the gradient flows back to the values.
        spread = spread.masked_scatter(self.wanted, values.to(torch.float32))
        if self.split is not None:
            spread = self.split.gather(spread)
        # A copy, since a view would keep the tensor of all columns alive as long as the result.
        return spread[:, self.response].clone()


def crop_padding(data: DataProto) -> DataProto:
    """Remove the columns that are padding in every row: left of the prompts and right of the responses."""
    prompts, responses = data.tensor("prompts").shape[1], data.tensor("responses").shape[1]
    columns = data.tensor("attention_mask").bool().any(dim=0).nonzero().squeeze(-1)
    # At least one prompt and one response column stay: the last prompt position predicts the first response token.
    start, end = min(int(columns[0]), prompts - 1), max(int(columns[-1]) + 1, prompts + 1)
    found = {}
    for name, value in data.batch.items():
        width = value.shape[1] if value.dim() > 1 else 0
        if name == "prompts":
            found[name] = value[:, start:]
        elif width == prompts + responses:
            found[name] = value[:, start:end]
        # Those have one column per sample of the group, which may happen to equal the number of response columns.
        elif width == responses and name not in ("Q_bc", "acc_bc"):
            found[name] = value[:, : end - prompts]
        else:
            found[name] = value
    return DataProto(found, dict(data.non_tensor_batch), dict(data.meta_info))


def passes(data: DataProto, batching: BatchingConfig, *, is_packed: bool) -> list[Tensor]:
    """Return the row indices of each micro-batch.

    Micro-batches have equal numbers of rows, or with ``use_dynamic_bsz`` bounded numbers of tokens: of padded ones,
    rows of similar length together, or with ``is_packed`` (rows joined without padding) of those that are computed, to
    which a prompt that several rows of a pass have adds once. Every row occurs exactly once, so results can be put back
    in order by these indices.
    """
    if batching.use_dynamic_bsz:
        lengths = [int(length) for length in data.tensor("attention_mask").sum(dim=-1)]
        # Attention and activations grow with tokens, not rows: bounding tokens lets short rows share a pass without a
        # long one exceeding memory.
        limit = batching.ppo_max_token_len_per_gpu
        found = pack_passes(data, lengths, limit) if is_packed else micro_batches(lengths, limit)
        # Sharded parameters are gathered from all ranks in every pass, so every rank must make as many.
        return [torch.tensor(rows) for rows in split_largest(found, max_over_ranks(len(found)))]
    return list(torch.arange(len(data)).split(batching.ppo_micro_batch_size_per_gpu))


def pack_passes(data: DataProto, lengths: list[int], limit: int) -> list[list[int]]:
    """Return the rows of passes of at most ``limit`` packed tokens, ``lengths`` being the rows' own."""
    width = data.tensor("prompts").shape[1]
    prompts = data.tensor("attention_mask")[:, :width].sum(dim=-1).tolist()
    return fill_passes(lengths, limit, find_prompt_heads(data), prompts)


def split_largest(batches: list[list[int]], count: int) -> list[list[int]]:
    """Split the largest micro-batches in half until there are ``count``; raises ``InvalidField`` with too few rows."""
    batches = list(batches)
    while len(batches) < count:
        # Halving the largest costs the least: its halves fit where the whole did.
        place = max(range(len(batches)), key=lambda index: len(batches[index]))
        rows = batches[place]
        if len(rows) < 2:
            raise InvalidField("uid", f"{len(batches)} rows on this rank where another needs {count} passes")
        batches[place : place + 1] = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return batches


def mini_batches(data: DataProto, prompts: int) -> list[DataProto]:
    """Split a batch into parts of ``prompts`` whole groups, in order; rows of one ``uid`` stay together."""
    if "uid" not in data:
        return [data]
    # In order of first occurrence, which is the same on every run and every number of ranks.
    order = list(dict.fromkeys(data.array("uid").tolist()))
    place = {uid: number // prompts for number, uid in enumerate(order)}
    parts = torch.tensor([place[uid] for uid in data.array("uid").tolist()])
    return [data[parts == part] for part in range(int(parts.max()) + 1)]


@torch.no_grad()
def without_gradient(
    data: DataProto,
    batching: BatchingConfig,
    compute: Callable[[DataProto], dict[str, Tensor]],
    device: torch.device,
    *,
    is_packed: bool,
) -> DataProto:
    """Run ``compute`` on each micro-batch on ``device``, split as ``passes`` does.

    Returns its fields as [B, T] float32 on the CPU, in row order, 0 on padding.
    """
    shape = data.tensor("responses").shape
    found: dict[str, Tensor] = {}
    for rows in passes(data, batching, is_packed=is_packed):
        for name, values in compute(crop_padding(data[rows]).to(device)).items():
            into = found.setdefault(name, torch.zeros(shape, dtype=torch.float32))
            into[rows, : values.shape[1]] = values.to(torch.float32).cpu()
    # What the network gives on padding is meaningless; 0 is what all readers of these fields expect there.
    present = data.tensor("attention_mask")[:, -shape[1] :].bool()
    return DataProto({name: torch.where(present, values, 0.0) for name, values in found.items()})
