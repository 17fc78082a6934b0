"""PRIME training loop: oversample, verify, filter, update and score with the reward model, RLOO over both rewards.

Source: arXiv 2502.01456. The steps follow the public recipe; differences are documented where they occur. There is no
critic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.algorithm import Algorithm, Learners, score_episodes
from fathom.trainers.algorithms.context import measure_time
from fathom.trainers.algorithms.ppo import RayPPOTrainer
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import batch_metrics, outcomes
from fathom.trainers.config import TrainConfig
from fathom.trainers.data.loader import loader_batch_size
from fathom.trainers.interfaces import Learner, Metrics, RewardFunction, Role
from fathom.trainers.objectives.filters import prioritised_groups
from fathom.trainers.objectives.kl import Controller
from fathom.trainers.objectives.masked import at_last
from fathom.trainers.prime.prime_core_algos import compute_rloo_advantage_return
from fathom.trainers.prime.prime_dp_rm import NEEDS_GROUPS, broadcast_groups
from fathom.trainers.prime.prime_fsdp_workers import PRIMERewardModelWorker


class RewardModelGroup(Learner, Protocol):
    """The implicit reward model under training."""

    def compute_rm_score(self, data: DataProto) -> DataProto: ...

    def update_rm(self, data: DataProto) -> DataProto: ...


class PRIME(Algorithm):
    """Outcome rewards and implicit process rewards, without a critic.

    Groups are filtered before anything is computed on them. Raises ``InvalidField`` naming the setting for an estimator
    other than RLOO, without a reward model, for groups of one, for KL in the reward, and for losses that compare within
    groups without ``reward_model.update: reverse``.
    """

    own_workers = MappingProxyType({Role.REWARD_MODEL: PRIMERewardModelWorker})
    warmup_steps = 0
    """No critic has to learn first."""

    def __init__(self, config: TrainConfig) -> None:
        """Keep the settings; raises ``InvalidField`` naming one that the algorithm does not support."""
        super().__init__(config)
        algorithm, model = config.algorithm, config.reward_model
        if algorithm.adv_estimator != "rloo":
            raise InvalidField("algorithm.adv_estimator", f"{algorithm.adv_estimator!r}; PRIME has rloo only")
        if not model.enable:
            raise InvalidField("reward_model.enable", "must be true: PRIME is the training of a reward model")
        if config.rollout.n < 2:
            raise InvalidField("rollout.n", "must be at least 2: a group of one has no baseline")
        if model.loss_type in NEEDS_GROUPS and model.update != "reverse":
            raise InvalidField("reward_model.update", f"must be reverse for loss_type {model.loss_type}")
        if algorithm.use_kl_in_reward:
            raise InvalidField("algorithm.use_kl_in_reward", "has no place in PRIME's rewards: use actor.use_kl_loss")

    def roles(self) -> list[Role]:
        """Return the roles needed: actor, reward model, and a reference policy when the loss has a KL term."""
        needed = [Role.ACTOR, Role.REWARD_MODEL]
        return [*needed, Role.REF_POLICY] if self.config.needs_reference else needed

    def checkpoint_parts(self) -> dict[str, Role]:
        """Return both trained models by checkpoint name; the reward model's is ``reward``, as in the public recipe."""
        return {"actor": Role.ACTOR, "reward": Role.REWARD_MODEL}

    @property
    def prompts_per_step(self) -> int:
        """Return ``train_batch_size * oversample_factor``, rounded down with a warning when it is not whole."""
        data = self.config.data
        return loader_batch_size(data.train_batch_size, data.oversample_factor)

    def score(self, batch: DataProto, reward_fn: RewardFunction | None, metrics: Metrics) -> DataProto:
        """Verify the episodes and keep the groups that are worth training on."""
        with measure_time(metrics, "verify"):
            batch = self.verify(batch, reward_fn, metrics)
        return self.filter_and_downsample(batch, metrics)

    def learn_rewards(self, batch: DataProto, learners: Learners, metrics: Metrics) -> DataProto:
        """Score and update the reward model."""
        with measure_time(metrics, "reward_model"):
            return self.score_and_update(batch, learners[Role.REWARD_MODEL], metrics)

    def rewards(self, batch: DataProto, controller: Controller, metrics: Metrics) -> DataProto:
        """Return the batch unchanged: the reward sources are weighted in ``advantages``."""
        return batch

    def batch_metrics(self, batch: DataProto) -> Metrics:
        """Compute metrics of the batch, except the outcome: ``verify`` has measured that of all rows drawn."""
        return {name: value for name, value in batch_metrics(batch).items() if name != "acc"}

    def verify(self, batch: DataProto, reward_fn: RewardFunction | None, metrics: Metrics) -> DataProto:
        """Set the outcome ``acc`` [B] in [0, 1]: the rollout source's own where present, else from ``reward_fn``.

        The metric ``acc`` is the mean over all rows, before filtering. Raises ``InvalidField`` for an outcome outside
        [0, 1].
        """
        # Episodes that the planner graded carry it; verifying them again could only disagree.
        if "acc" not in batch:
            scored = score_episodes(batch, reward_fn)
            batch = scored.with_tensors(
                acc=outcomes(scored.with_tensors(token_level_rewards=scored.tensor("token_level_scores")))
            )
        acc = batch.tensor("acc")
        outside = (acc < 0) | (acc > 1)
        if bool(outside.any()):
            row = int(outside.nonzero()[0])
            raise InvalidField("acc", f"row {row} is {float(acc[row])}; an outcome is between 0 and 1")
        metrics["acc"] = float(acc.mean())
        return batch.with_tensors(token_level_scores=at_last(acc, batch.tensor("response_mask")))

    def filter_and_downsample(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Keep ``train_batch_size`` whole groups: those that pass the filters first, in their original order."""
        data, n = self.config.data, self.config.rollout.n
        # The views below take rows g * n to (g + 1) * n - 1 for one prompt's.
        batch.require_groups(n)
        width = batch.tensor("responses").shape[1]
        lengths = batch.tensor("attention_mask")[:, -width:].sum(dim=-1)
        found = prioritised_groups(
            batch.tensor("acc").view(-1, n),
            lengths.view(-1, n),
            keep_groups=min(data.train_batch_size, len(batch) // n),
            max_response_length=data.max_response_length,
            lower=data.accuracy_lower_bound,
            upper=data.accuracy_upper_bound,
            filter_accuracy=data.filter_accuracy,
            filter_truncate=data.filter_truncate,
            stable_sort=data.stable_sort,
        )
        metrics |= {
            "filter/pass_rate": found.pass_rate,
            "filter/too_easy": found.too_easy,
            "filter/too_hard": found.too_hard,
            "filter/truncated": found.truncated,
            "filter/filled_with_failing": float(found.filled_with_failing),
        }
        return batch[found.rows].with_meta(n=n)

    def score_and_update(self, batch: DataProto, model: RewardModelGroup, metrics: Metrics) -> DataProto:
        """Compute ``rm_scores`` and ``q``, ordering scoring and learning as ``reward_model.update`` says.

        Modes: none (score only), after (scores of the update pass), before (learn, then score), reverse (score, then
        learn). Raises ``InvalidField`` for another mode.
        """
        mode = self.config.reward_model.update
        if mode not in MODES:
            raise InvalidField("reward_model.update", f"{mode!r} is not one of {', '.join(MODES)}")
        return MODES[mode](batch, model, metrics)

    def advantages(self, batch: DataProto) -> DataProto:
        """Compute RLOO advantages per reward source, weighted, summed and whitened."""
        algorithm = self.config.algorithm
        sources = {
            "rm_scores": (batch.tensor("rm_scores"), algorithm.reward_dpo_coef),
            "acc": (batch.tensor("acc"), algorithm.reward_gt_coef),
        }
        advantages, returns = compute_rloo_advantage_return(
            sources, batch.tensor("response_mask"), self.config.rollout.n
        )
        return batch.with_tensors(advantages=advantages.float(), returns=returns.float())


class RayPRIMETrainer(RayPPOTrainer):
    """The loop with PRIME's hooks, under the public recipe's name."""

    use_critic = False

    def __init__(self, config: TrainConfig, *arguments: Any, **named: Any) -> None:
        """Configure the trainer; raises ``InvalidField`` as ``RayPPOTrainer`` and ``PRIME`` do."""
        super().__init__(config, *arguments, **{"algorithm": PRIME(config), **named})


def score(batch: DataProto, model: RewardModelGroup, metrics: Metrics) -> DataProto:
    """Score the batch with the reward model as it is."""
    return merge_scores(batch, model.compute_rm_score(batch), metrics)


def learn(batch: DataProto, model: RewardModelGroup, metrics: Metrics) -> DataProto:
    """Update the reward model in one pass; the scores are those computed before its first step."""
    return merge_scores(batch, model.update_rm(batch), metrics)


def learn_then_score(batch: DataProto, model: RewardModelGroup, metrics: Metrics) -> DataProto:
    """Update the reward model, then score the batch with the updated model."""
    # The scores of the update itself are dropped: they are those before its first step.
    metrics |= model.update_rm(batch).meta_info.get("metrics", {})
    return score(batch, model, metrics)


def score_then_learn(batch: DataProto, model: RewardModelGroup, metrics: Metrics) -> DataProto:
    """Score the batch first, so that each row's loss can see its whole group, then update the reward model."""
    batch = broadcast_groups(score(batch, model, metrics))
    return merge_scores(batch, model.update_rm(batch), metrics)


def merge_scores(batch: DataProto, found: DataProto, metrics: Metrics) -> DataProto:
    """Add the reward model's scores to the batch, and its metrics to the step's."""
    metrics |= found.meta_info.get("metrics", {})
    return batch.with_tensors(rm_scores=found.tensor("rm_scores"), q=found.tensor("q"))


MODES: Mapping[str, Callable[[DataProto, RewardModelGroup, Metrics], DataProto]] = MappingProxyType(
    {"none": score, "after": learn, "before": learn_then_score, "reverse": score_then_learn}
)
"""Ways in which ``reward_model.update`` orders scoring and learning."""
