"""Settings of training: the tree shared by all algorithms, and the section of the small GRPO. Does not import torch."""

from trainers.config.grpo import GrpoConfig, read_overrides
from trainers.config.tree import TrainConfig, load_config

__all__ = ["GrpoConfig", "TrainConfig", "load_config", "read_overrides"]
