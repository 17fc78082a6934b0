"""RLOO (arXiv 2402.14740): each episode against the mean of its prompt's other episodes, without a critic.

Settings: ``config/presets/rloo.yaml``. Only the advantage differs from PPO; the loop is ``trainers.ppo``.
"""

from __future__ import annotations

from trainers.data_proto import DataProto
from trainers.ppo import RayPPOTrainer
from trainers.roles import Metrics
from trainers.steps import compute_advantage


class RLOOTrainer(RayPPOTrainer):
    """RLOO trainer: A = R - mean of the other n - 1 episodes, the same for every token the model wrote."""

    estimators = ("rloo",)

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Compute leave-one-out advantages within each prompt's group."""
        return compute_advantage(batch, "rloo")
