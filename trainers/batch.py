"""Trajectories to tensors, checked field by field. Shapes: B rows, S positions, right-padded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fathom.api.planner.v1.trajectory_pb2 import STOP_REASON_FAILED, Segment, Trajectory
from fathom.errors import InvalidField, VersionMismatch


@dataclass(frozen=True)
class Batch:
    """``input_ids`` [B, S] int64; ``attention_mask`` and ``loss_mask`` [B, S] int64 and float32;
    ``log_probs`` [B, S] float32 of the rollout; ``rewards`` [G, N] float32; ``owners`` [B] int64.

    A row is a segment: what was sampled between two compactions of an episode's view. Most episodes have one, and
    then row g * N + n is sample n of group g. ``owners`` says for each row whose reward it shares, as g * N + n.
    """

    input_ids: Tensor
    attention_mask: Tensor
    loss_mask: Tensor
    log_probs: Tensor
    rewards: Tensor
    owners: Tensor

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
    rows = [(owner, part) for owner, item in enumerate(ordered) for part in segments(item)]
    width = max(len(part.token_ids) for _, part in rows)
    return Batch(
        padded([part.token_ids for _, part in rows], width, torch.int64),
        padded([[1] * len(part.token_ids) for _, part in rows], width, torch.int64),
        padded([part.mask for _, part in rows], width, torch.float32),
        padded([part.log_probs for _, part in rows], width, torch.float32),
        torch.tensor([item.reward for item in ordered], dtype=torch.float32).view(groups, group_size),
        torch.tensor([owner for owner, _ in rows], dtype=torch.int64),
    )


def segments(item: Trajectory) -> Sequence[Segment | Trajectory]:
    """The stretches of an episode in which ids only grew; without a compaction the flat ids are the one.

    Each sampled id has mask 1 in exactly one of them: what a compaction left is rendered anew with mask 0.
    """
    return list(item.segments) or [item]


def padded(rows: Sequence[Sequence[float]], width: int, dtype: torch.dtype) -> Tensor:
    """[B, width], zeros to the right."""
    return torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows], dtype=dtype)


def check(item: Trajectory, version: int) -> None:
    """A trajectory that a policy gradient may use, sampled with one version."""
    check_content(item)
    for sampled_with in (item.version_min, item.version_max):
        if sampled_with != version:
            raise VersionMismatch(f"trajectory {item.run_id}", version, sampled_with)


def check_content(item: Trajectory) -> None:
    """Whole, exact and finite, whatever version sampled it; raises ``InvalidField`` naming the field."""
    name = f"trajectory {item.run_id}"
    if item.stop_reason == STOP_REASON_FAILED:
        raise InvalidField("trajectory.stop_reason", f"{name} failed: {item.error}")
    if not item.exact:
        raise InvalidField("trajectory.exact", f"{name} lacks exact ids or log-probabilities: it cannot train")
    for part in segments(item):
        lengths = (len(part.token_ids), len(part.mask), len(part.log_probs))
        if len(set(lengths)) != 1 or not lengths[0]:
            raise InvalidField("trajectory.mask", f"{name} has {lengths} ids, mask and log-probabilities")
        if set(part.mask) - {0, 1} or not any(part.mask):
            raise InvalidField("trajectory.mask", f"{name} must be 0 or 1, and 1 somewhere")
        if not all(math.isfinite(value) for value in part.log_probs):
            raise InvalidField("trajectory.log_probs", f"{name} has a value that is not finite")
    if item.segments and len(item.steps):
        sampled = sum(len(step.completion.sampled_token_ids) for step in item.steps)
        if sampled != sum(sum(part.mask) for part in item.segments):
            raise InvalidField("trajectory.segments", f"{name} does not hold each of {sampled} sampled ids once")
    if not math.isfinite(item.reward):
        raise InvalidField("trajectory.reward", f"{name} has reward {item.reward}")
