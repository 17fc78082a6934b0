"""Log-probabilities of the policy before its update: recomputed, or the rollout's own, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.losses import importance_weights
from trainers.mismatch import FIRST_PASS, mismatch_metrics
from trainers.roles import ActorGroup, Metrics
from trainers.steps import spread

MOST_OUTSIDE = 0.02
"""Share of tokens outside the clip range before any step from which a training is warned: what the clip takes from
them is lost to the update before it begins. With one arithmetic on both sides there is none."""


def old_log_probs(batch: DataProto, actor: ActorGroup, config: TrainConfig) -> tuple[DataProto, Metrics]:
    """The batch with ``old_log_probs`` and, where they are capped, ``rollout_is_weights``; metrics of the mismatch.

    In bypass mode the rollout's own stand in: nothing is recomputed, and the update's first pass, which has to be made
    anyway, says how far the learner's are from them.
    """
    if config.algorithm.bypass_mode:
        return batch.with_tensors(old_log_probs=batch.tensor("rollout_log_probs")).with_meta(**{FIRST_PASS: True}), {}
    metrics: Metrics = {}
    found, mask = actor.compute_log_prob(batch), batch.tensor("response_mask")
    if "entropys" in found:
        entropy = torch.where(mask.bool(), found.tensor("entropys"), 0.0)
        metrics["actor/entropy"] = float(entropy.sum() / mask.sum())
    batch = batch.union(found.select(["old_log_probs"]))
    metrics |= mismatch_metrics(batch, config.actor.clip_ratio_low, config.actor.clip_ratio_high)
    if config.rollout.importance_cap is not None:
        old, rollout = batch.tensor("old_log_probs"), batch.tensor("rollout_log_probs")
        weights = importance_weights(old, rollout, mask, cap=config.rollout.importance_cap)
        metrics |= spread("mismatch/importance", weights[mask.bool()])
        batch = batch.with_tensors(rollout_is_weights=weights)
    return batch, metrics


def warning(metrics: Mapping[str, float], config: TrainConfig) -> str:
    """What is to be said of a step whose tokens lie outside the clip range before any update; "" for nothing.

    Nothing where importance weights answer for it, nor where the rollout is of older weights: then age is measured.
    """
    outside, bypass = metrics.get("mismatch/outside_clip", 0.0), config.algorithm.bypass_mode
    weighted = config.rollout.importance_cap is not None and not bypass
    if outside <= MOST_OUTSIDE or weighted or metrics.get("rollout/age/max", 0.0) > 0:
        return ""
    dtype = config.model.dtype
    same = "model.dtype=float32" if dtype != "float32" else "the sampler's dtype and attention in the learner"
    weights = "algorithm.bypass_mode=false with rollout.importance_cap" if bypass else "rollout.importance_cap"
    return (
        f"Before any step {outside:.1%} of the sampled tokens are outside the clip range (mean |p - p'|"
        f" {metrics['mismatch/prob_diff/mean']:.3g}, KL {metrics['mismatch/kl_k3']:.3g} nats per token): learner and"
        f" sampler disagree, with model.dtype={dtype} in the learner. What helps: {same}, or {weights}."
    )
