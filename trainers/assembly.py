"""From settings to a trainer: which workers, which prompts; ``trainers.algorithms`` says which class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.errors import InvalidField
from trainers.algorithms import find
from trainers.config import TrainConfig
from trainers.data.dataset import RLHFDataset, collate_fn
from trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from trainers.ppo import RayPPOTrainer, Surroundings
from trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
from trainers.prompts import Prompts
from trainers.roles import ResourcePoolManager, RewardFunction, Role, WorkerGroupFactory
from trainers.workers import LocalGroup, RayGroup

WORKERS: Mapping[Role, Any] = {
    Role.ACTOR: ActorWorker,
    Role.CRITIC: CriticWorker,
    Role.REF_POLICY: ReferenceWorker,
    Role.REWARD_MODEL: PRIMERewardModelWorker,
}


def groups(config: TrainConfig) -> WorkerGroupFactory:
    """Ranks on Ray where the settings ask for it or for more than one, else this process."""
    return RayGroup if config.trainer.use_ray or config.trainer.world_size > 1 else LocalGroup


def prompts(config: TrainConfig, tokenizer: Any) -> tuple[Prompts, Prompts | None]:
    """(training, validation) from the parquet files; raises ``InvalidField`` when there are none to train on."""
    data = config.data
    if not data.train_files:
        raise InvalidField("data.train_files", "names no file")

    def dataset(files: Sequence[Path]) -> RLHFDataset:
        return RLHFDataset(
            list(files),
            tokenizer,
            data.prompt_key,
            data.max_prompt_length,
            data.filter_overlong_prompts,
            True,
            data.truncation,
        )

    validation = Prompts(dataset(data.val_files), False, data.seed, collate_fn) if data.val_files else None
    return Prompts(dataset(data.train_files), data.shuffle, data.seed, collate_fn), validation


def trainer(
    algorithm: str,
    config: TrainConfig,
    tokenizer: Any,
    surroundings: Surroundings,
    reward_fn: RewardFunction | None = None,
    val_reward_fn: RewardFunction | None = None,
) -> RayPPOTrainer:
    """The trainer of that name with this machine's workers; raises ``NotFound`` for an unknown one."""
    pools = ResourcePoolManager({"learners": config.trainer.world_size}, dict.fromkeys(WORKERS, "learners"))
    made: RayPPOTrainer = find(algorithm).load()(
        config, tokenizer, WORKERS, pools, groups(config), reward_fn, val_reward_fn, surroundings=surroundings
    )
    return made
