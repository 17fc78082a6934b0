"""The policy under training: log-probabilities of a batch, and PPO's clipped update (arXiv 1707.06347)."""

from __future__ import annotations

from typing import Any

import torch

from trainers.config.learning import ActorConfig
from trainers.data_proto import DataProto
from trainers.kl import kind_named
from trainers.learners.forward import cropped, mini_batches, passes, without_gradient
from trainers.learners.fsdp import world
from trainers.learners.networks import Placement, PolicyNetwork, device_of
from trainers.learners.stepping import Stepper, mismatch_of_all, prompts_of_rank, shares_of_all, totals_of_all
from trainers.losses import Totals, aggregate, kl_loss, policy_loss
from trainers.mismatch import FIRST_PASS, Mismatch, sampled_mask


class Actor:
    """A causal language model and its optimiser. Not thread-safe."""

    def __init__(self, config: ActorConfig, model: Any, placement: Placement | None = None) -> None:
        placement = placement or Placement()
        self.config, self.model = config, model
        self.network = PolicyNetwork(model, placement, config.ulysses_sequence_parallel_size)
        self.stepper = Stepper(self.network, config.optim, placement.total_steps)

    def compute_log_prob(self, data: DataProto) -> DataProto:
        """Compute ``old_log_probs`` and ``entropys``, [B, T] float32, 0 on padding, at ``meta_info["temperature"]``."""
        temperature = float(data.meta_info["temperature"])

        def compute(rows: DataProto) -> dict[str, torch.Tensor]:
            log_probs, entropy = self.network(rows, temperature, entropy=True)
            return {"old_log_probs": log_probs, "entropys": entropy}

        # In the mode of the update: another state of dropout would make ratios of its own.
        self.model.train()
        return without_gradient(data, self.config, compute, device_of(self.model))

    def update_policy(self, data: DataProto) -> dict[str, float]:
        """Make ``ppo_epochs`` passes in mini-batches of whole groups; return metrics under ``actor/``.

        Reads advantages, old_log_probs, response_mask, ref_log_prob when the loss has a KL term, and rollout_is_weights
        when present. The gradient is that of the whole mini-batch over all ranks, independent of how it is split into
        micro-batches. When ``meta_info`` has ``mismatch.FIRST_PASS``, also returns ``mismatch/…`` metrics, measured on
        the rows of the first mini-batch that contribute a gradient, before any step.
        """
        self.model.train()
        temperature = float(data.meta_info["temperature"])
        device, sharing = device_of(self.model), self.config.ulysses_sequence_parallel_size
        metrics: list[dict[str, float]] = []
        norms: list[float] = []
        found = Mismatch() if data.meta_info.get(FIRST_PASS) else None
        for _ in range(self.config.ppo_epochs):
            for mini in mini_batches(data, prompts_of_rank(self.config)):
                totals = totals_of_all(mini.tensor("response_mask"), sharing)
                taught = self.with_gradient(mini)
                rows = [cropped(taught[part]).to(device) for part in passes(taught, self.config)]
                first = found is not None and not norms
                parts = [self.backward(part, totals, temperature, measure=first) for part in rows]
                if found is not None and first:
                    found = sum((mismatch for _, mismatch in parts), found)
                metrics.append({name: sum(part[name] for part, _ in parts) for name in parts[0][0]})
                norms.append(self.stepper.step())
        self.stepper.advance()
        measured = {} if found is None else mismatch_of_all(found, sharing).metrics()
        return (
            shares_of_all(metrics, sharing)
            | measured
            | {
                "actor/grad_norm": sum(norms) / len(norms),
                "actor/lr": self.stepper.lr,
            }
        )

    def with_gradient(self, mini: DataProto) -> DataProto:
        """Drop rows whose advantages are all 0 (as in a group of equal rewards) when the loss has no other term.

        At least one row stays. With several ranks all rows stay.
        """
        # Dropping rows keeps the gradient, since the totals still count them; but ranks must make equal numbers of
        # passes.
        if self.config.entropy_coeff or self.config.use_kl_loss or world() > 1:
            return mini
        some = (mini.tensor("advantages") != 0).any(dim=-1)
        return mini[some] if bool(some.any()) else mini[:1]

    def backward(
        self, rows: DataProto, totals: Totals, temperature: float, *, measure: bool = False
    ) -> tuple[dict[str, float], Mismatch]:
        """Accumulate the gradient of one micro-batch.

        Returns its share of each loss and, with ``measure``, the mismatch between rollout and learner
        log-probabilities.
        """
        config, mask = self.config, rows.tensor("response_mask")
        found = self.network(rows, temperature, entropy=config.entropy_coeff > 0, trained=True)
        mismatch = Mismatch()
        if measure:
            theirs, bounds = rows.tensor("rollout_log_probs"), (config.clip_ratio_low, config.clip_ratio_high)
            mismatch = Mismatch.of(theirs, found.log_probs, sampled_mask(rows), *bounds)
        losses = policy_loss(
            found.log_probs,
            rows.tensor("old_log_probs"),
            rows.tensor("advantages"),
            mask,
            totals,
            clip_low=config.clip_ratio_low,
            clip_high=config.clip_ratio_high,
            dual_clip=config.clip_ratio_c or 0.0,
            weights=rows.batch.get("rollout_is_weights"),
            mode=config.loss_agg_mode,
        )
        loss, share = losses.loss, float(mask.sum()) / max(totals.tokens, 1.0)
        metrics = {
            "actor/pg_loss": float(losses.loss.detach()),
            "actor/pg_clipfrac": float(losses.clip_fraction) * share,
            "actor/pg_clipfrac_lower": float(losses.clip_fraction_lower) * share,
            "actor/ppo_kl": float(losses.approx_kl) * share,
        }
        if found.entropy is not None:
            bonus = aggregate(found.entropy, mask, totals, config.loss_agg_mode)
            loss = loss - config.entropy_coeff * bonus
            metrics["actor/entropy_loss"] = float(bonus.detach())
        if config.use_kl_loss:
            distance = kl_loss(
                found.log_probs,
                rows.tensor("ref_log_prob"),
                mask,
                totals,
                kind=kind_named(config.kl_loss_type),
                mode=config.loss_agg_mode,
            )
            loss = loss + config.kl_loss_coef * distance
            metrics["actor/kl_loss"] = float(distance.detach())
        loss.backward()
        return metrics, mismatch
