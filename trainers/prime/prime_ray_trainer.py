"""PRIME training loop: oversample, verify, filter, update and score with the reward model, RLOO over both rewards.

Source: arXiv 2502.01456. The steps follow the public recipe; differences are documented where they occur. There is no
critic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fathom.errors import InvalidField
from trainers.data.loader import loader_batch_size
from trainers.data_proto import DataProto
from trainers.filters import prioritised_groups
from trainers.masked import at_last
from trainers.ppo import RayPPOTrainer
from trainers.prime.prime_core_algos import compute_rloo_advantage_return
from trainers.prime.prime_dp_rm import NEEDS_GROUPS, broadcast_groups
from trainers.roles import Learner, Metrics, Role
from trainers.steps import batch_metrics, outcomes
from trainers.surroundings import timed


class RewardModelGroup(Learner, Protocol):
    """The implicit reward model under training."""

    def compute_rm_score(self, data: DataProto) -> DataProto: ...

    def update_rm(self, data: DataProto) -> DataProto: ...


class RayPRIMETrainer(RayPPOTrainer):
    """PPO loop without a critic, with outcome rewards and implicit process rewards.

    Groups are filtered before anything is computed on them. Raises ``InvalidField`` naming the setting for an estimator
    other than RLOO, for groups of one, for KL in the reward, and for losses that compare within groups without
    ``reward_model.update: reverse``.
    """

    use_critic = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.use_critic = False
        algorithm, model = self.config.algorithm, self.config.reward_model
        if algorithm.adv_estimator != "rloo":
            raise InvalidField("algorithm.adv_estimator", f"{algorithm.adv_estimator!r}; PRIME has rloo only")
        if self.config.rollout.n < 2:
            raise InvalidField("rollout.n", "must be at least 2: a group of one has no baseline")
        if model.loss_type in NEEDS_GROUPS and model.update != "reverse":
            raise InvalidField("reward_model.update", f"must be reverse for loss_type {model.loss_type}")
        if algorithm.use_kl_in_reward:
            raise InvalidField("algorithm.use_kl_in_reward", "has no place in PRIME's rewards: use actor.use_kl_loss")

    def roles(self) -> list[Role]:
        """Return the roles needed: actor, reward model, and a reference policy when the loss has a KL term."""
        needed = [Role.ACTOR, Role.REWARD_MODEL]
        return [*needed, Role.REF_POLICY] if self.config.needs_reference else needed

    def init_workers(self) -> None:
        """Create the worker groups of all roles."""
        groups = {role: self.make_group(role) for role in self.roles()}
        self.actor, self.critic = groups[Role.ACTOR], None
        self.reference = groups.get(Role.REF_POLICY)
        self.reward_model: RewardModelGroup = groups[Role.REWARD_MODEL]

    def learners(self) -> dict[str, Any]:
        """Return both trained models by checkpoint name; the reward model's is ``reward``, as in the public recipe."""
        return {"actor": self.actor, "reward": self.reward_model}

    @property
    def prompts_per_step(self) -> int:
        """Return ``train_batch_size * oversample_factor``, rounded down with a warning when it is not whole."""
        data = self.config.data
        return loader_batch_size(data.train_batch_size, data.oversample_factor)

    def train_step(self, prompts: DataProto, metrics: Metrics) -> None:
        """Generate, verify, filter, compute log-probabilities, score and update the reward model, update the actor."""
        with timed(metrics, "gen"):
            batch = self.generate(prompts, metrics)
        with timed(metrics, "verify"):
            batch = self.verify(batch, metrics)
        batch = self.filter_and_downsample(batch, metrics)
        with timed(metrics, "old_log_prob"):
            batch = self.compute_old_log_prob(batch, metrics)
        if self.reference is not None:
            with timed(metrics, "ref"):
                batch = batch.union(self.reference.compute_ref_log_prob(batch))
        with timed(metrics, "reward_model"):
            batch = self.score_and_update(batch, metrics)
        with timed(metrics, "adv"):
            batch = self.compute_advantage(batch, metrics)
        # The outcome as verified is of all rows that were drawn, not of those that stayed.
        metrics |= {name: value for name, value in batch_metrics(batch).items() if name != "acc"}
        with timed(metrics, "update_actor"):
            metrics |= self.actor.update_policy(batch)

    def verify(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Set the outcome ``acc`` [B] in [0, 1]: the rollout source's own where present, else from ``reward_fn``.

        The metric ``acc`` is the mean over all rows, before filtering. Raises ``InvalidField`` for an outcome outside
        [0, 1].
        """
        if "acc" not in batch:
            scored = self.compute_reward(batch, metrics)
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

    def score_and_update(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Compute ``rm_scores`` and ``q``, ordering scoring and learning as ``reward_model.update`` says.

        Modes: none (score only), after (scores of the update pass), before (learn, then score), reverse (score, then
        learn). Raises ``InvalidField`` for another mode.
        """
        modes: dict[str, Callable[[DataProto, Metrics], DataProto]] = {
            "none": self.score, "after": self.learn, "before": self.learn_then_score, "reverse": self.score_then_learn,
        }  # fmt: skip
        mode = self.config.reward_model.update
        if mode not in modes:
            raise InvalidField("reward_model.update", f"{mode!r} is not one of {', '.join(modes)}")
        return modes[mode](batch, metrics)

    def score(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Score the batch with the reward model as it is."""
        return taken(batch, self.reward_model.compute_rm_score(batch), metrics)

    def learn(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Update the reward model in one pass; the scores are those computed before its first step."""
        return taken(batch, self.reward_model.update_rm(batch), metrics)

    def learn_then_score(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Update the reward model, then score the batch with the updated model."""
        metrics |= self.reward_model.update_rm(batch).meta_info.get("metrics", {})
        return self.score(batch, metrics)

    def score_then_learn(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Score the batch first, so that each row's loss can see its whole group, then update the reward model."""
        batch = broadcast_groups(self.score(batch, metrics))
        return taken(batch, self.reward_model.update_rm(batch), metrics)

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
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


def taken(batch: DataProto, found: DataProto, metrics: Metrics) -> DataProto:
    """Add the reward model's scores to the batch, and its metrics to the step's."""
    metrics |= found.meta_info.get("metrics", {})
    return batch.with_tensors(rm_scores=found.tensor("rm_scores"), q=found.tensor("q"))
