"""The workers of a training, one per role and rank: a learner made from the settings, with its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.learners import checkpoint
from trainers.learners.actor import Actor
from trainers.learners.critic import Critic
from trainers.learners.models import export, export_adapter, load_model, load_tokenizer
from trainers.learners.networks import Placement
from trainers.learners.reference import Reference


def model_on_rank(config: TrainConfig) -> Any:
    """The language model where this rank computes: the same on all ranks."""
    return load_model(config.model, config.trainer.seed).to(config.trainer.device)


class ActorWorker:
    """The policy under training (role ``actor``). ``sharing`` ranks of it share every row."""

    def __init__(self, config: TrainConfig) -> None:
        self.sharing = config.actor.ulysses_sequence_parallel_size
        self.config, self.tokenizer = config.model, load_tokenizer(config.model)
        self.learner = Actor(config.actor, model_on_rank(config), Placement.of(config))

    def compute_log_prob(self, data: DataProto) -> DataProto:
        return self.learner.compute_log_prob(data)

    def update_policy(self, data: DataProto) -> dict[str, float]:
        return self.learner.update_policy(data)

    def export(self, folder: Path) -> None:
        export(self.learner.network, self.learner.model, self.tokenizer, self.config, folder)

    def export_adapter(self, folder: Path) -> None:
        export_adapter(self.learner.network, self.config, folder)

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.learner.stepper)

    def load_checkpoint(self, folder: Path) -> None:
        checkpoint.load(folder, self.learner.stepper)


class CriticWorker:
    """The value function under training (role ``critic``); its trunk starts as the policy's."""

    def __init__(self, config: TrainConfig) -> None:
        self.sharing = config.critic.ulysses_sequence_parallel_size
        self.learner = Critic(config.critic, model_on_rank(config), Placement.of(config))

    def compute_values(self, data: DataProto) -> DataProto:
        return self.learner.compute_values(data)

    def update_critic(self, data: DataProto) -> dict[str, float]:
        return self.learner.update_critic(data)

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.learner.stepper)

    def load_checkpoint(self, folder: Path) -> None:
        checkpoint.load(folder, self.learner.stepper)


class ReferenceWorker:
    """The policy as it was at the start (role ``ref_policy``)."""

    def __init__(self, config: TrainConfig) -> None:
        self.sharing = config.actor.ulysses_sequence_parallel_size
        self.learner = Reference(config.actor, model_on_rank(config), Placement.of(config))

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        return self.learner.compute_ref_log_prob(data)
