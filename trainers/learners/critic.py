"""The value function: a language model's trunk with a scalar head per token, and its clipped update."""

from __future__ import annotations

from typing import Any

from fathom.trainers.batch import DataProto
from fathom.trainers.config.learning import CriticConfig
from fathom.trainers.learners.forward import crop_padding, mini_batches, passes, without_gradient
from fathom.trainers.learners.networks import Placement, ValueModel
from fathom.trainers.learners.stepping import Stepper, prompts_of_rank, shares_of_all, totals_of_all
from fathom.trainers.objectives.policy_loss import Totals, value_loss


class Critic:
    """A value model and its optimiser. Not thread-safe."""

    def __init__(self, config: CriticConfig, language_model: Any, placement: Placement | None = None) -> None:
        placement = placement or Placement()
        self.config = config
        self.model = ValueModel(language_model, placement, config)
        # After the model: sharding replaces the parameters, and the optimiser must hold the sharded ones.
        self.stepper = Stepper(self.model, config.optim, placement.total_steps)

    def compute_values(self, data: DataProto) -> DataProto:
        """Compute ``values`` [B, T] float32, 0 on padding."""
        self.model.train()
        return without_gradient(
            data,
            self.config,
            lambda rows: {"values": self.model(rows)},
            self.model.device,
            is_packed=self.model.packed,
        )

    def update_critic(self, data: DataProto) -> dict[str, float]:
        """Make ``ppo_epochs`` passes in mini-batches of whole groups; return metrics under ``critic/``.

        Reads values (old), returns and response_mask. The mask is the policy loss's, so observations are not trained
        on.
        """
        self.model.train()
        device, sharing = self.model.device, self.config.sharing
        metrics: list[dict[str, float]] = []
        norms: list[float] = []
        # No rows are dropped here, unlike the policy's: a row without advantage still has a return to be fitted.
        for _ in range(self.config.ppo_epochs):
            for mini in mini_batches(data, prompts_of_rank(self.config)):
                totals = totals_of_all(mini.tensor("response_mask"), sharing)
                rows = [
                    crop_padding(mini[part]).to(device)
                    for part in passes(mini, self.config, is_packed=self.model.packed)
                ]
                parts = [self.backward(part, totals) for part in rows]
                metrics.append({name: sum(part[name] for part in parts) for name in parts[0]})
                norms.append(self.stepper.step())
        self.stepper.advance()
        return shares_of_all(metrics, sharing) | {
            "critic/grad_norm": sum(norms) / len(norms),
            "critic/lr": self.stepper.lr,
        }

    def backward(self, rows: DataProto, totals: Totals) -> dict[str, float]:
        """Accumulate the gradient of one micro-batch and return its share of the loss."""
        mask = rows.tensor("response_mask")
        found = value_loss(
            self.model(rows),
            rows.tensor("values"),
            rows.tensor("returns"),
            mask,
            totals,
            clip=self.config.cliprange_value,
            mode=self.config.loss_agg_mode,
        )
        found.loss.backward()
        share = float(mask.sum()) / max(totals.tokens, 1.0)
        return {
            "critic/vf_loss": float(found.loss.detach()),
            "critic/vf_clipfrac": float(found.clip_fraction) * share,
            "critic/vf_explained_var": float(found.explained_variance) * share,
        }
