"""Assembly of an algorithm's trainer from settings: worker classes, worker groups and reward function."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.algorithms.context import TrainingContext
from fathom.trainers.algorithms.ppo import RayPPOTrainer
from fathom.trainers.config import TrainConfig
from fathom.trainers.interfaces import ResourcePoolManager, RewardFunction, Role, WorkerGroupFactory
from fathom.trainers.learners.ranks.groups import LocalGroup, RayGroup, SharedRanks
from fathom.trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from fathom.trainers.reward_manager import PrimeRewardManager
from fathom.trainers.rollouts.requests import OWN
from fathom.trainers.search_r1.reward import RewardManager

WORKERS: Mapping[Role, Any] = MappingProxyType(
    {Role.ACTOR: ActorWorker, Role.CRITIC: CriticWorker, Role.REF_POLICY: ReferenceWorker}
)


def select_group_factory(config: TrainConfig, store_url: str = "") -> WorkerGroupFactory:
    """Return the factory of worker groups: Ray when configured or for several ranks, otherwise this process.

    On Ray, roles share ranks or have their own, by ``trainer.colocate_roles``. Groups fetch models of ``store:`` keys
    from ``store_url``.
    """
    if not runs_on_ray(config):
        return partial(LocalGroup, store_url=store_url)
    return SharedRanks(store_url) if config.trainer.colocate_roles else partial(RayGroup, store_url=store_url)


def runs_on_ray(config: TrainConfig) -> bool:
    """Return whether learners are Ray actors."""
    return config.trainer.use_ray or config.trainer.world_size > 1


def count_ranks(config: TrainConfig, roles: int) -> int:
    """Return the number of Ray ranks that ``roles`` learners need together."""
    return config.trainer.world_size * (1 if config.trainer.colocate_roles else roles)


def build_trainer(
    algorithm: Algorithm,
    tokenizer: Any,
    context: TrainingContext,
    reward_fn: RewardFunction | None = None,
    val_reward_fn: RewardFunction | None = None,
    store_url: str = "",
) -> RayPPOTrainer:
    """Build the trainer of an algorithm, with its settings, the standard workers and the algorithm's own."""
    config = algorithm.config
    reward_fn = reward_fn or build_reward_function(config, tokenizer)
    workers = {**WORKERS, **algorithm.own_workers}
    # One pool for all roles: they work in turns, and so share the same number of ranks.
    pools = ResourcePoolManager({"learners": config.trainer.world_size}, dict.fromkeys(workers, "learners"))
    return RayPPOTrainer(
        config,
        tokenizer,
        workers,
        pools,
        select_group_factory(config, store_url),
        reward_fn,
        val_reward_fn,
        context=context,
        algorithm=algorithm,
    )


def build_reward_function(config: TrainConfig, tokenizer: Any) -> RewardFunction | None:
    """Return the reward function for ungraded episodes, or None when the reward service grades them.

    Search-R1's exact match, or PRIME's pool of verifiers.
    """
    reward = config.reward
    if reward.manager == "search_r1":
        return RewardManager(
            tokenizer,
            reward.num_examine,
            reward.format_score,
            parity_answer_extraction=reward.parity_answer_extraction,
        )
    if reward.manager != "prime":
        return None
    # Rows that name their own grader have it anyway.
    grader, parameters = ("em", {}) if reward.grader == OWN else (reward.grader, reward.parameters)
    return PrimeRewardManager(
        tokenizer, reward.num_examine, grader=grader, parameters=parameters, timeout_s=reward.timeout_s
    )
