"""Worker of PRIME's reward model: phi and its frozen reference on one rank, replicated or sharded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.sections import ModelConfig
from fathom.trainers.learners import checkpoint
from fathom.trainers.learners.checkpoint import Fetch
from fathom.trainers.learners.models import load_model
from fathom.trainers.learners.ranks.fsdp import world
from fathom.trainers.learners.stepping import shares_of_all
from fathom.trainers.prime.prime_dp_rm import DataParallelPRIMERewardModel


class PRIMERewardModelWorker:
    """Worker for the role ``reward_model``.

    Results are ``DataProto`` whose ``meta_info["metrics"]`` are averaged over ranks. Raises ``InvalidField`` for
    sequence parallelism: phi is data-parallel only, since its log-ratio needs whole sequences.
    """

    def __init__(self, config: TrainConfig) -> None:
        if config.reward_model.ulysses_sequence_parallel_size != 1:
            raise InvalidField("reward_model.ulysses_sequence_parallel_size", "must be 1: phi is data-parallel only")
        self.config = config
        self.init_model()

    def init_model(self) -> None:
        """Load phi and, for ``ref_type: freeze``, its reference.

        phi comes from ``reward_model.path`` (default: the actor's), the reference from ``ref_path`` (default: phi's).
        """
        settings, seed = self.config.reward_model, self.config.trainer.seed
        device = self.config.trainer.device
        # By default from the same file and seed: phi and its reference start equal, so that the first implicit rewards
        # are exactly 0.
        phi = load_model(at(self.config.model, settings.path), seed).to(device)
        reference: Any = None
        if settings.ref_type == "freeze":
            reference = load_model(at(self.config.model, settings.ref_path or settings.path), seed).to(device)
        trainer = self.config.trainer
        self.model = DataParallelPRIMERewardModel(
            settings,
            phi,
            reference,
            shard=trainer.strategy == "fsdp2",
            offload=trainer.cpu_offload,
            device=trainer.device,
            total_steps=trainer.total_training_steps,
        )

    def compute_rm_score(self, data: DataProto) -> DataProto:
        """Compute ``rm_scores`` and ``q``, both [B, T]."""
        return with_metrics(*self.model.compute_rm_score(data))

    def update_rm(self, data: DataProto) -> DataProto:
        """Make one pass of optimiser steps; the returned scores were computed before the first step."""
        return with_metrics(*self.model.update_rm(data))

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.model.learner_state())

    def load_checkpoint(self, folder: Path, fetch: Fetch = checkpoint.is_here) -> None:
        checkpoint.load(folder, self.model.learner_state(), fetch)


def at(config: ModelConfig, path: str | None) -> ModelConfig:
    """Return the actor's model settings with another path; None keeps the path."""
    return config if path is None else config.model_copy(update={"path": path})


def with_metrics(data: DataProto, metrics: dict[str, float]) -> DataProto:
    """Store this rank's metrics, averaged over ranks, in ``meta_info``."""
    # An unweighted mean is exact: every rank has the same number of groups.
    return data.with_meta(metrics=shares_of_all([metrics], world()))
