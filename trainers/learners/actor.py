"""The policy under training: log-probabilities of a batch, and updates by the loss of its algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config.learning import ActorConfig
from fathom.trainers.learners.forward import crop_padding, mini_batches, passes, without_gradient
from fathom.trainers.learners.networks import Placement, PolicyNetwork
from fathom.trainers.learners.ranks.fsdp import world
from fathom.trainers.learners.stepping import Stepper, mismatch_of_all, prompts_of_rank, shares_of_all, totals_of_all
from fathom.trainers.objectives.mismatch import FIRST_PASS, OLD_IS_FIRST_PASS, Mismatch, sampled_mask
from fathom.trainers.objectives.policy_loss import Totals
from fathom.trainers.objectives.terms import LossInput, LossTerm, check_loss, clipped_loss


class Actor:
    """A causal language model and its optimiser. Not thread-safe."""

    def __init__(self, config: ActorConfig, model: Any, placement: Placement | None = None) -> None:
        placement = placement or Placement()
        self.config, self.model = config, model
        self.loss = clipped_loss(config)
        self.network = PolicyNetwork(model, placement, config)
        self.stepper = Stepper(self.network, config.optim, placement.total_steps)

    def use_loss(self, terms: Sequence[LossTerm]) -> None:
        """Train with the sum of these terms; before the first call it is PPO's loss with the settings' terms."""
        self.loss = check_loss(terms)

    def compute_log_prob(self, data: DataProto) -> DataProto:
        """Compute ``old_log_probs`` and ``entropys``, [B, T] float32, 0 on padding, at ``meta_info["temperature"]``."""
        temperature = float(data.meta_info["temperature"])

        def compute(rows: DataProto) -> dict[str, torch.Tensor]:
            log_probs, entropy = self.network(rows, temperature, entropy=True)
            return {"old_log_probs": log_probs, "entropys": entropy}

        # In the mode of the update: another state of dropout would make ratios of its own.
        self.model.train()
        network = self.network
        return without_gradient(data, self.config, compute, network.device, is_packed=network.packed)

    def update_policy(self, data: DataProto) -> dict[str, float]:
        """Make ``ppo_epochs`` passes in mini-batches of whole groups; return metrics under ``actor/``.

        Reads response_mask and the fields that the terms of the loss read. The gradient is that of the whole mini-batch
        over all ranks, independent of how it is split into micro-batches. When ``meta_info`` has
        ``mismatch.OLD_IS_FIRST_PASS``, the old log-probabilities are those of the pass itself; when it has
        ``mismatch.FIRST_PASS``, also returns ``mismatch/…`` metrics, measured on the rows of the first mini-batch that
        contribute a gradient, before any step.
        """
        self.model.train()
        temperature = float(data.meta_info["temperature"])
        device, sharing = self.network.device, self.config.sharing
        metrics: list[dict[str, float]] = []
        norms: list[float] = []
        found = Mismatch() if data.meta_info.get(FIRST_PASS) else None
        for _ in range(self.config.ppo_epochs):
            # Whole groups per mini-batch: their advantages were computed together and sum to about 0, so that a
            # mini-batch does not push all of its answers one way.
            for mini in mini_batches(data, prompts_of_rank(self.config)):
                if norms and data.meta_info.get(OLD_IS_FIRST_PASS):
                    raise InvalidField("algorithm.old_log_probs", "is update, and this batch needs more than one")
                # Before rows are dropped: the denominators count every trained token, whether it has a gradient or not.
                totals = totals_of_all(mini.tensor("response_mask"), sharing)
                totals = replace(totals, width=self.config.loss_scale_factor or totals.width)
                taught = self.with_gradient(mini)
                rows = [
                    crop_padding(taught[part]).to(device)
                    for part in passes(taught, self.config, is_packed=self.network.packed)
                ]
                # Before the first optimiser step learner and sampler hold the same weights; later the difference would
                # include learning.
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
        """Drop rows whose advantages are all 0 (as in a group of equal rewards) when every term needs an advantage.

        At least one row stays. With several ranks all rows stay.
        """
        # Dropping rows keeps the gradient, since the totals still count them; but ranks must make equal numbers of
        # passes.
        if world() > 1 or not all(term.needs_advantage for term in self.loss):
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
        config = self.config
        found = self.network(rows, temperature, entropy=any(term.needs_entropy for term in self.loss), trained=True)
        if rows.meta_info.get(OLD_IS_FIRST_PASS):
            rows = rows.with_tensors(old_log_probs=found.log_probs.detach())
        mismatch = Mismatch()
        if measure:
            theirs, bounds = rows.tensor("rollout_log_probs"), (config.clip_ratio_low, config.clip_ratio_high)
            mismatch = Mismatch.of(theirs, found.log_probs, sampled_mask(rows), *bounds, config.ratio_level)
        given = LossInput(rows, found.log_probs, found.entropy, totals)
        values, metrics = [], dict[str, float]()
        for term in self.loss:
            value, shares = term(given)
            values.append(value)
            metrics |= shares
        # One backward pass through the network for all terms together.
        sum(values[1:], start=values[0]).backward()
        return metrics, mismatch
