"""Settings of training: the tree that every algorithm reads, and the small GRPO's own section. No torch here."""

from trainers.config.grpo import GrpoConfig, read_overrides
from trainers.config.tree import TrainConfig, load_config

__all__ = ["GrpoConfig", "TrainConfig", "load_config", "read_overrides"]
