"""GRPO (arXiv 2402.03300): each episode against its prompt's group, without a critic.

Settings: ``config/presets/grpo.yaml``. The whole of it on one page: ``examples/train/grpo_minimal.py``.
"""

from __future__ import annotations

from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import compute_advantage


class GRPO(Algorithm):
    """A = (R - mean) / (std + 1e-6) within the group, the same for every token the model wrote."""

    estimators = ("grpo",)

    def advantages(self, batch: DataProto) -> DataProto:
        """Compute group-relative advantages; without division by the deviation it is Dr. GRPO (arXiv 2503.20783)."""
        return compute_advantage(batch, "grpo", norm_by_std=self.config.algorithm.norm_adv_by_std_in_grpo)
