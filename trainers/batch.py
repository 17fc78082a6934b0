"""Trajectories to tensors, checked field by field. Shapes: B rows, S positions, right-padded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Trajectory
from fathom.errors import InvalidField, VersionMismatch


@dataclass(frozen=True)
class Batch:
    """``input_ids`` [B, S] int64; ``attention_mask`` and ``loss_mask`` [B, S] int64 and float32;
    ``log_probs`` [B, S] float32 of the rollout; ``rewards`` [G, N] float32. Row g * N + n is sample n of group g.
    """

    input_ids: Tensor
    attention_mask: Tensor
    loss_mask: Tensor
    log_probs: Tensor
    rewards: Tensor

    @property
    def trained_tokens(self) -> int:
        return int(self.loss_mask.sum().item())

    def with_log_probs(self, log_probs: Tensor) -> Batch:
        """The batch with other log-probabilities of the rollout, [B, S]: recomputed by the policy to be trained."""
        return replace(self, log_probs=log_probs)


def data_proto(batch: Batch) -> dict[str, Tensor]:
    """The batch under the names and in the layout of verl's ``DataProto``.

    ``prompts`` are the positions before the first sampled one of any row, ``responses`` [B, R] what follows;
    ``response_mask`` is 1 on sampled ids only: what tools and the environment said in between is 0.
    """
    width = batch.input_ids.shape[1]
    first = int(torch.argmax((batch.loss_mask.sum(dim=0) > 0).int()).item())
    positions = (batch.attention_mask.cumsum(dim=1) - 1).clamp(min=0)
    return {
        "input_ids": batch.input_ids,
        "attention_mask": batch.attention_mask,
        "position_ids": positions,
        "prompts": batch.input_ids[:, :first],
        "responses": batch.input_ids[:, first:width],
        "response_mask": batch.loss_mask[:, first:width],
        "rollout_log_probs": batch.log_probs[:, first:width],
        "rewards": batch.rewards.reshape(-1),
    }


def make_batch(trajectories: Sequence[Trajectory], groups: int, group_size: int, version: int) -> Batch:
    """Orders, checks and pads; raises ``InvalidField`` or ``VersionMismatch`` naming what is wrong.

    Masks are the trajectories' own: nothing is derived from ids, since padding and end-of-turn may share one.
    """
    ordered = sorted(trajectories, key=lambda item: (item.task_index, item.sample_index))
    places = [(item.task_index, item.sample_index) for item in ordered]
    if places != [(g, n) for g in range(groups) for n in range(group_size)]:
        raise InvalidField("trajectories", f"are not {groups} groups of {group_size}: {len(ordered)} came")
    for item in ordered:
        check(item, version)
    width = max(len(item.token_ids) for item in ordered)
    return Batch(
        padded([item.token_ids for item in ordered], width, torch.int64),
        padded([[1] * len(item.token_ids) for item in ordered], width, torch.int64),
        padded([item.mask for item in ordered], width, torch.float32),
        padded([item.log_probs for item in ordered], width, torch.float32),
        torch.tensor([item.reward for item in ordered], dtype=torch.float32).view(groups, group_size),
    )


def padded(rows: Sequence[Sequence[float]], width: int, dtype: torch.dtype) -> Tensor:
    """[B, width], zeros to the right."""
    return torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows], dtype=dtype)


def check(item: Trajectory, version: int) -> None:
    """A trajectory that a policy gradient may use."""
    name = f"trajectory {item.run_id}"
    if item.stop_reason == STOP_REASON_FAILED:
        raise InvalidField("trajectory.stop_reason", f"{name} failed: {item.error}")
    if not item.exact:
        raise InvalidField("trajectory.exact", f"{name} lacks exact ids or log-probabilities: it cannot train")
    lengths = (len(item.token_ids), len(item.mask), len(item.log_probs))
    if len(set(lengths)) != 1 or not lengths[0]:
        raise InvalidField("trajectory.mask", f"{name} has {lengths} ids, mask and log-probabilities")
    if set(item.mask) - {0, 1} or not any(item.mask):
        raise InvalidField("trajectory.mask", f"{name} must be 0 or 1, and 1 somewhere")
    if not all(math.isfinite(value) for value in item.log_probs):
        raise InvalidField("trajectory.log_probs", f"{name} has a value that is not finite")
    if not math.isfinite(item.reward):
        raise InvalidField("trajectory.reward", f"{name} has reward {item.reward}")
    for sampled_with in (item.version_min, item.version_max):
        if sampled_with != version:
            raise VersionMismatch(name, version, sampled_with)
