"""Settings of training: one tree shared by all algorithms. Does not import torch."""

from fathom.trainers.config.tree import TrainConfig, load_config

__all__ = ["TrainConfig", "load_config"]
