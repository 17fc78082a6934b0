"""RLOO (arXiv 2402.14740): each episode against the mean of the others of its prompt; no critic.

Settings: ``config/presets/rloo.yaml``. What differs from PPO is the advantage; the loop is ``trainers.ppo``.
"""

from __future__ import annotations

from trainers.data_proto import DataProto
from trainers.ppo import RayPPOTrainer
from trainers.roles import Metrics
from trainers.steps import compute_advantage


class RLOOTrainer(RayPPOTrainer):
    """A = R - mean of the other n - 1 episodes, the same for every token that the model wrote."""

    estimators = ("rloo",)

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Leave-one-out within each prompt's group."""
        return compute_advantage(batch, "rloo")
