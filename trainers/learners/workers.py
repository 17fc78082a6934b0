"""Workers of a training run, one per role and rank: a learner built from the settings, with checkpointing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.learners import checkpoint
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.checkpoint import Fetch
from fathom.trainers.learners.critic import Critic
from fathom.trainers.learners.models import (
    SaveWeights,
    export,
    export_adapter,
    load_model,
    load_tokenizer,
    save_weights,
)
from fathom.trainers.learners.networks import Placement
from fathom.trainers.learners.reference import Reference
from fathom.trainers.objectives.terms import LossTerm


def model_on_rank(config: TrainConfig) -> Any:
    """Load the language model onto this rank's device, identical on all ranks."""
    model = load_model(config.model, config.trainer.seed)
    # Offloaded, it never is on the device as a whole: sharding takes it there layer by layer.
    return model if config.trainer.cpu_offload else model.to(config.trainer.device)


class ActorWorker:
    """Worker of the policy under training (role ``actor``); ``sharing`` ranks hold the same rows."""

    def __init__(self, config: TrainConfig) -> None:
        self.sharing = config.actor.sharing
        self.config, self.tokenizer = config.model, load_tokenizer(config.model)
        self.learner = Actor(config.actor, model_on_rank(config), Placement.of(config))

    def use_loss(self, terms: Sequence[LossTerm]) -> None:
        self.learner.use_loss(terms)

    def compute_log_prob(self, data: DataProto) -> DataProto:
        return self.learner.compute_log_prob(data)

    def update_policy(self, data: DataProto) -> dict[str, float]:
        return self.learner.update_policy(data)

    def export(self, folder: Path, save: SaveWeights = save_weights) -> None:
        export(self.learner.network, self.learner.model, self.tokenizer, self.config, folder, save=save)

    def export_base(self, folder: Path) -> None:
        export(self.learner.network, self.learner.model, self.tokenizer, self.config, folder, with_adapter=False)

    def export_adapter(self, folder: Path) -> None:
        export_adapter(self.learner.network, self.config, folder)

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.learner.stepper.state())

    def load_checkpoint(self, folder: Path, fetch: Fetch = checkpoint.is_here) -> None:
        checkpoint.load(folder, self.learner.stepper.state(), fetch)


class CriticWorker:
    """Worker of the value function (role ``critic``); its trunk starts from the policy's weights."""

    def __init__(self, config: TrainConfig) -> None:
        self.sharing = config.critic.sharing
        self.learner = Critic(config.critic, model_on_rank(config), Placement.of(config))

    def compute_values(self, data: DataProto) -> DataProto:
        return self.learner.compute_values(data)

    def update_critic(self, data: DataProto) -> dict[str, float]:
        return self.learner.update_critic(data)

    def save_checkpoint(self, folder: Path) -> None:
        checkpoint.save(folder, self.learner.stepper.state())

    def load_checkpoint(self, folder: Path, fetch: Fetch = checkpoint.is_here) -> None:
        checkpoint.load(folder, self.learner.stepper.state(), fetch)


class ReferenceWorker:
    """Worker of the initial policy, kept frozen (role ``ref_policy``)."""

    def __init__(self, config: TrainConfig) -> None:
        self.sharing = config.actor.sharing
        self.learner = Reference(config.actor, model_on_rank(config), Placement.of(config))

    def compute_ref_log_prob(self, data: DataProto) -> DataProto:
        return self.learner.compute_ref_log_prob(data)
