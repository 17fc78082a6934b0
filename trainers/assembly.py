"""From settings to a trainer: which class, which workers, which prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.errors import InvalidField, NotFound
from trainers.config import TrainConfig, load_config
from trainers.data.dataset import RLHFDataset, collate_fn
from trainers.grpo import GRPOTrainer
from trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from trainers.ppo import RayPPOTrainer, Surroundings
from trainers.prompts import Prompts
from trainers.rloo import RLOOTrainer
from trainers.roles import ResourcePoolManager, RewardFunction, Role, WorkerGroupFactory
from trainers.workers import LocalGroup, RayGroup

TRAINERS: Mapping[str, type[RayPPOTrainer]] = {"ppo": RayPPOTrainer, "grpo": GRPOTrainer, "rloo": RLOOTrainer}
"""By the name that ``fathom train`` takes."""
PRESETS = Path(__file__).parent / "config" / "presets"
WORKERS: Mapping[Role, Any] = {
    Role.ACTOR: ActorWorker,
    Role.CRITIC: CriticWorker,
    Role.REF_POLICY: ReferenceWorker,
}


def settings(algorithm: str, files: Sequence[Path] = (), overrides: Sequence[str] = ()) -> TrainConfig:
    """The algorithm's preset, then ``files``, then ``overrides``; raises ``NotFound`` for an unknown algorithm."""
    if algorithm not in TRAINERS:
        raise NotFound("algorithm", algorithm, sorted(TRAINERS))
    return load_config([PRESETS / f"{algorithm}.yaml", *files], overrides)


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
    if algorithm not in TRAINERS:
        raise NotFound("algorithm", algorithm, sorted(TRAINERS))
    pools = ResourcePoolManager({"learners": config.trainer.world_size}, dict.fromkeys(WORKERS, "learners"))
    return TRAINERS[algorithm](
        config, tokenizer, WORKERS, pools, groups(config), reward_fn, val_reward_fn, surroundings=surroundings
    )
