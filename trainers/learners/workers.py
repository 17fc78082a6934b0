"""The workers of a training, one per role and rank: a learner made from the settings, with its checkpoints."""

from __future__ import annotations

from pathlib import Path

from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.learners import checkpoint
from trainers.learners.actor import Actor
from trainers.learners.critic import Critic, ValueModel
from trainers.learners.models import export, load_model, load_tokenizer
from trainers.learners.reference import Reference


class ActorWorker:
    """The policy under training (role ``actor``)."""

    def __init__(self, config: TrainConfig) -> None:
        self.tokenizer = load_tokenizer(config.model)
        model = load_model(config.model, config.trainer.seed)
        self.learner = Actor(config.actor, model, total_steps=config.trainer.total_training_steps)

    def compute_log_prob(self, data: DataProto) -> DataProto:
        return self.learner.compute_log_prob(data)

    def update_policy(self, data: DataProto) -> dict[str, float]:
        return self.learner.update_policy(data)

    def export(self, folder: Path) -> None:
        export(self.learner.model, self.tokenizer, folder)

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.learner.stepper)

    def load_checkpoint(self, folder: Path) -> None:
        checkpoint.load(folder, self.learner.stepper)


class CriticWorker:
    """The value function under training (role ``critic``); its trunk starts as the policy's."""

    def __init__(self, config: TrainConfig) -> None:
        model = ValueModel(load_model(config.model, config.trainer.seed))
        self.learner = Critic(config.critic, model, total_steps=config.trainer.total_training_steps)

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
        self.learner = Reference(config.actor, load_model(config.model, config.trainer.seed))

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        return self.learner.compute_ref_log_prob(data)
