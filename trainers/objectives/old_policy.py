"""Log-probabilities of the policy before its update, recomputed or taken from the rollout, and their mismatch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import spread
from fathom.trainers.config import TrainConfig
from fathom.trainers.interfaces import ActorGroup, Metrics
from fathom.trainers.objectives.mismatch import FIRST_PASS, OLD_IS_FIRST_PASS, mismatch_metrics
from fathom.trainers.objectives.policy_loss import importance_weights

MOST_OUTSIDE = 0.02
"""Share of tokens outside the clip range before any step above which a warning is given. Clipping removes these tokens
from the update; with equal arithmetic on both sides there are none.
"""


def old_log_probs(batch: DataProto, actor: ActorGroup, config: TrainConfig) -> tuple[DataProto, Metrics]:
    """Add ``old_log_probs`` and, with an importance cap, ``rollout_is_weights``; return the batch and mismatch metrics.

    In bypass mode the rollout's own log-probabilities are used and nothing is recomputed, with
    ``algorithm.old_log_probs`` update those of the update's own pass; the mismatch is then measured in that pass.
    """
    # With episodes that span versions there is no single policy to recompute them with: what each token was sampled
    # with is the only exact value.
    if config.algorithm.bypass_mode:
        return batch.with_tensors(old_log_probs=batch.tensor("rollout_log_probs")).with_meta(**{FIRST_PASS: True}), {}
    # One update of the whole batch: what its pass computes is the policy before it.
    if config.algorithm.old_log_probs == "update":
        return batch.with_meta(**{FIRST_PASS: "rollout_log_probs" in batch, OLD_IS_FIRST_PASS: True}), {}
    metrics: Metrics = {}
    found, mask = actor.compute_log_prob(batch), batch.tensor("response_mask")
    if "entropys" in found:
        entropy = torch.where(mask.bool(), found.tensor("entropys"), 0.0)
        metrics["actor/entropy"] = float(entropy.sum() / mask.sum())
    batch = batch.union(found.select(["old_log_probs"]))
    actor_config, rollout = config.actor, config.rollout
    bounds = (actor_config.clip_ratio_low, actor_config.clip_ratio_high)
    metrics |= mismatch_metrics(batch, *bounds, actor_config.ratio_level)
    if rollout.importance_cap is not None:
        weights = importance_weights(
            batch.tensor("old_log_probs"),
            batch.tensor("rollout_log_probs"),
            mask,
            cap=rollout.importance_cap,
            floor=rollout.importance_floor,
            per_sequence=rollout.importance_level == "sequence",
            masked=rollout.importance_mode == "mask",
        )
        metrics |= spread("mismatch/importance", weights[mask.bool()])
        # A truncated weight is never 0: what is 0 on the mask has been masked.
        metrics["mismatch/importance/masked"] = float((weights[mask.bool()] == 0).float().mean())
        batch = batch.with_tensors(rollout_is_weights=weights)
    return batch, metrics


def warning(metrics: Mapping[str, float], config: TrainConfig) -> str:
    """Return a warning when too many tokens are outside the clip range before any update; "" otherwise.

    No warning when importance weights compensate for it, nor when the rollout used older weights, where the difference
    reflects their age.
    """
    outside, bypass = metrics.get("mismatch/outside_clip", 0.0), config.algorithm.bypass_mode
    weighted = config.rollout.importance_cap is not None and not bypass
    # A rollout by older weights differs because of its age, which is no disagreement between two implementations.
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
