"""Assembly of a trainer from settings: worker classes, worker groups and reward function.

``trainers.algorithms`` selects the trainer's class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainers.algorithms import find
from trainers.config import TrainConfig
from trainers.learners.workers import ActorWorker, CriticWorker, ReferenceWorker
from trainers.ppo import RayPPOTrainer
from trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker
from trainers.prime.reward_manager import PrimeRewardManager
from trainers.roles import ResourcePoolManager, RewardFunction, Role, WorkerGroupFactory
from trainers.rollouts.requests import OWN
from trainers.search_r1.reward import RewardManager
from trainers.surroundings import Surroundings
from trainers.workers import LocalGroup, RayGroup

WORKERS: Mapping[Role, Any] = {
    Role.ACTOR: ActorWorker,
    Role.CRITIC: CriticWorker,
    Role.REF_POLICY: ReferenceWorker,
    Role.REWARD_MODEL: PRIMERewardModelWorker,
}


def groups(config: TrainConfig) -> WorkerGroupFactory:
    """Return the factory of worker groups: Ray when configured or for several ranks, otherwise this process."""
    return RayGroup if config.trainer.use_ray or config.trainer.world_size > 1 else LocalGroup


def trainer(
    algorithm: str,
    config: TrainConfig,
    tokenizer: Any,
    surroundings: Surroundings,
    reward_fn: RewardFunction | None = None,
    val_reward_fn: RewardFunction | None = None,
) -> RayPPOTrainer:
    """Build the named trainer with the standard workers; raises ``NotFound`` for an unknown name."""
    reward_fn = reward_fn or verifiers(config, tokenizer)
    pools = ResourcePoolManager({"learners": config.trainer.world_size}, dict.fromkeys(WORKERS, "learners"))
    made: RayPPOTrainer = find(algorithm).load()(
        config, tokenizer, WORKERS, pools, groups(config), reward_fn, val_reward_fn, surroundings=surroundings
    )
    return made


def verifiers(config: TrainConfig, tokenizer: Any) -> RewardFunction | None:
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
