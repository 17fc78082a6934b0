"""The frozen reference policy of the KL terms."""

from __future__ import annotations

from typing import Any

from fathom.trainers.batch import DataProto
from fathom.trainers.config.learning import BatchingConfig
from fathom.trainers.learners.forward import without_gradient
from fathom.trainers.learners.networks import Placement, PolicyNetwork


class Reference:
    """A causal language model that is not trained."""

    def __init__(self, config: BatchingConfig, model: Any, placement: Placement | None = None) -> None:
        self.config = config
        # Without gradients no activations are kept and no optimiser state is made; eval also turns dropout off, so that
        # the reference is one fixed distribution.
        self.model = model.eval().requires_grad_(False)
        self.network = PolicyNetwork(self.model, placement or Placement(), config)

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        """Compute ``ref_log_prob`` [B, T] float32, 0 on padding, at ``meta_info["temperature"]`` like the policy's."""
        temperature = float(data.meta_info["temperature"])
        return without_gradient(
            data,
            self.config,
            lambda rows: {"ref_log_prob": self.network(rows, temperature).log_probs},
            self.network.device,
            is_packed=self.network.packed,
        )
