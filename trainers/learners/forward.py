"""From rows to log-probabilities, entropies and values of their response tokens; and how rows are cut into passes.

Shapes: B rows, P prompt columns, T response columns, V vocabulary. Column t belongs to response token t, and comes
from position P + t - 1, which is what predicts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fathom.implicit.sequences import micro_batches
from trainers.config.sections import BatchingConfig
from trainers.data_proto import DataProto

CHUNK_CELLS = 1 << 24
"""Logits turned into log-probabilities at once: 64 MiB of float32."""


@dataclass(frozen=True)
class Tokens:
    """``log_probs`` [B, T] float32 with gradient; ``entropy`` [B, T] float32, where it was asked for."""

    log_probs: Tensor
    entropy: Tensor | None = None


def response_tokens(model: Any, data: DataProto, temperature: float, *, entropy: bool = False) -> Tokens:
    """Log-probabilities of the response tokens at the rollout's ``temperature``, as sampling took them.

    ``data`` has prompts, responses, input_ids, attention_mask and position_ids; padding on either side changes
    nothing. Entropy is logsumexp(z) - sum softmax(z) z of the same scaled logits.
    """
    responses = data.tensor("responses")
    logits = response_logits(model, data)
    parts = [
        chunk_tokens(rows / temperature, targets, entropy)
        for rows, targets in chunks(logits, responses)
    ]  # fmt: skip
    found = torch.cat([part.log_probs for part in parts])
    return Tokens(found, torch.cat([part.entropy for part in parts if part.entropy is not None]) if entropy else None)


def response_logits(model: Any, data: DataProto) -> Tensor:
    """[B, T, V]: what predicts each response token."""
    output = model(
        input_ids=data.tensor("input_ids"),
        attention_mask=data.tensor("attention_mask"),
        position_ids=data.tensor("position_ids"),
        use_cache=False,
        logits_to_keep=data.tensor("responses").shape[1] + 1,
    )
    logits: Tensor = output.logits[:, :-1]
    return logits


def chunks(logits: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows in parts of at most ``CHUNK_CELLS`` logits, so that no second copy of all of them is made."""
    rows = max(1, CHUNK_CELLS // max(1, logits.shape[1] * logits.shape[2]))
    for start in range(0, len(logits), rows):
        yield logits[start : start + rows], targets[start : start + rows]


def chunk_tokens(logits: Tensor, targets: Tensor, entropy: bool) -> Tokens:
    """One part in float32."""
    logits = logits.to(torch.float32)
    total = torch.logsumexp(logits, dim=-1)
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - total
    if not entropy:
        return Tokens(chosen)
    return Tokens(chosen, total - (torch.softmax(logits, dim=-1) * logits).sum(dim=-1))


def cropped(data: DataProto) -> DataProto:
    """Without the columns that are padding in every row: narrower prompts on the left, responses on the right."""
    prompts, responses = data.tensor("prompts").shape[1], data.tensor("responses").shape[1]
    columns = data.tensor("attention_mask").bool().any(dim=0).nonzero().squeeze(-1)
    start, end = min(int(columns[0]), prompts - 1), max(int(columns[-1]) + 1, prompts + 1)
    found = {}
    for name, value in data.batch.items():
        width = value.shape[1] if value.dim() > 1 else 0
        if name == "prompts":
            found[name] = value[:, start:]
        elif width == prompts + responses:
            found[name] = value[:, start:end]
        elif width == responses and name not in ("Q_bc", "acc_bc"):
            found[name] = value[:, : end - prompts]
        else:
            found[name] = value
    return DataProto(found, dict(data.non_tensor_batch), dict(data.meta_info))


def passes(data: DataProto, batching: BatchingConfig) -> list[Tensor]:
    """Row indices of each forward pass: equal numbers of rows, or by tokens with rows of like length together.

    Every row occurs once; whoever puts results back by these indices has them in order.
    """
    if batching.use_dynamic_bsz:
        lengths = [int(length) for length in data.tensor("attention_mask").sum(dim=-1)]
        return [torch.tensor(rows) for rows in micro_batches(lengths, batching.ppo_max_token_len_per_gpu)]
    return list(torch.arange(len(data)).split(batching.ppo_micro_batch_size_per_gpu))


def mini_batches(data: DataProto, prompts: int) -> list[DataProto]:
    """Parts of ``prompts`` whole groups in order; rows of one ``uid`` stay together."""
    if "uid" not in data:
        return [data]
    order = list(dict.fromkeys(data.array("uid").tolist()))
    place = {uid: number // prompts for number, uid in enumerate(order)}
    parts = torch.tensor([place[uid] for uid in data.array("uid").tolist()])
    return [data[parts == part] for part in range(int(parts.max()) + 1)]


@torch.no_grad()
def without_gradient(
    data: DataProto, batching: BatchingConfig, compute: Callable[[DataProto], dict[str, Tensor]]
) -> DataProto:
    """What ``compute`` gives for each pass ([b, t] float32 by name), as [B, T] in the rows' order."""
    shape = data.tensor("responses").shape
    found: dict[str, Tensor] = {}
    for rows in passes(data, batching):
        for name, values in compute(cropped(data[rows])).items():
            into = found.setdefault(name, torch.zeros(shape, dtype=torch.float32))
            into[rows, : values.shape[1]] = values.to(torch.float32).cpu()
    present = data.tensor("attention_mask")[:, -shape[1] :].bool()
    return DataProto({name: torch.where(present, values, 0.0) for name, values in found.items()})
