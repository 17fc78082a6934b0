"""Hooks in which algorithms differ, called by the one loop (``algorithms.ppo.RayPPOTrainer``) and by ``jobs.launch``.

An algorithm says which learners it needs, how episodes are graded, how rewards become advantages, and what the policy
loss is; prompts, rollouts, updates, publication, validation and checkpoints are the loop's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any

from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.trainers.algorithms.context import measure_time
from fathom.trainers.algorithms.dynamic_sampling import select_informative
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import (
    ESTIMATORS,
    apply_kl_penalty,
    batch_metrics,
    check_scores,
    compute_advantage,
    punish_length,
)
from fathom.trainers.config import TrainConfig
from fathom.trainers.interfaces import Metrics, RewardFunction, Role
from fathom.trainers.monitor.collapse import Signal
from fathom.trainers.objectives.kl import Controller
from fathom.trainers.objectives.terms import LossTerm, clipped_loss
from fathom.trainers.rollouts.groups import Grade, Row

Learners = Mapping[Role, Any]
"""Worker groups by role (``interfaces``)."""


class Algorithm:
    """The hooks with PPO's behaviour, in the order in which a step calls them; an algorithm overrides what differs.

    Every hook takes a batch and returns it with further fields; ``metrics`` collects the step's metrics.
    """

    estimators: tuple[str, ...] = ESTIMATORS
    """Values of ``algorithm.adv_estimator`` that the algorithm supports."""
    own_workers: Mapping[Role, Any] = MappingProxyType({})
    """Worker classes of roles beyond actor, critic and reference policy."""

    def __init__(self, config: TrainConfig) -> None:
        """Keep the settings; raises ``InvalidField`` naming one that the algorithm does not support."""
        self.config = config
        # Refused at construction: an estimator that a subclass silently ignores would be logged as if it had been used.
        chosen = config.algorithm.adv_estimator
        if chosen not in self.estimators:
            known = ", ".join(self.estimators)
            raise InvalidField("algorithm.adv_estimator", f"is {chosen!r}, here it is {known}")

    def roles(self) -> list[Role]:
        """Return the learners that the settings need."""
        needed = [Role.ACTOR]
        if self.config.algorithm.adv_estimator == "gae":
            needed.append(Role.CRITIC)
        if self.config.needs_reference:
            needed.append(Role.REF_POLICY)
        return needed

    def checkpoint_parts(self) -> dict[str, Role]:
        """Return the learners saved in a checkpoint, by folder name."""
        return {str(role): role for role in self.roles() if role in (Role.ACTOR, Role.CRITIC)}

    def grader(self, clients: Clients) -> Grade | None:
        """Return the grader of whole groups; None when the graders of the reward settings suffice."""
        return None

    async def prepare_prompts(self, rows: Sequence[Row], clients: Clients) -> list[Row]:
        """Return the prompts with what their episodes need beyond the question; unchanged by default."""
        return list(rows)

    def collapse_signals(self) -> tuple[Signal, ...]:
        """Return signs of collapse to watch for beside the general ones; none by default."""
        return ()

    def notes(self) -> list[str]:
        """Return remarks on the settings for the training's report; none by default."""
        return []

    @property
    def prompts_per_step(self) -> int:
        """Return the number of prompts drawn per step; more than ``train_batch_size`` when a hook drops some."""
        return self.config.data.train_batch_size

    @property
    def warmup_steps(self) -> int:
        """Return the number of first steps in which the actor is not updated."""
        return self.config.trainer.critic_warmup

    def score(self, batch: DataProto, reward_fn: RewardFunction | None, metrics: Metrics) -> DataProto:
        """Set ``token_level_scores``; may also drop whole groups, before anything is computed on them."""
        with measure_time(metrics, "reward"):
            return score_episodes(batch, reward_fn)

    def select_groups(self, drawn: Sequence[DataProto], metrics: Metrics) -> DataProto | None:
        """Return the batch to train on, from the step's draws of prompts so far; None to draw once more.

        By default that is the one draw; with ``data.refill_draws`` groups whose scores are all equal are replaced.
        """
        data = self.config.data
        if not data.refill_draws:
            return drawn[0]
        return select_informative(
            drawn, wanted=data.train_batch_size, is_last=len(drawn) > data.refill_draws, metrics=metrics
        )

    def learn_rewards(self, batch: DataProto, learners: Learners, metrics: Metrics) -> DataProto:
        """Score the batch with a reward model that is trained beside the policy; nothing by default."""
        return batch

    def rewards(self, batch: DataProto, controller: Controller, metrics: Metrics) -> DataProto:
        """Set ``token_level_rewards``: the scores, minus KL and length penalties when configured."""
        settings = self.config.algorithm
        if settings.use_kl_in_reward:
            batch, found = apply_kl_penalty(batch, controller, settings.kl_penalty)
            metrics |= found
        else:
            batch = batch.with_tensors(token_level_rewards=batch.tensor("token_level_scores"))
        if settings.overlong_share:
            longest = self.config.data.max_response_length
            batch = punish_length(batch, longest, settings.overlong_share * longest, settings.overlong_penalty)
        return batch

    def advantages(self, batch: DataProto) -> DataProto:
        """Set ``advantages`` and ``returns``, [B, T], with the configured estimator."""
        settings = self.config.algorithm
        return compute_advantage(
            batch,
            settings.adv_estimator,
            settings.gamma,
            settings.lam,
            norm_by_std=settings.norm_adv_by_std_in_grpo,
            whitened=settings.whiten_advantages,
            components=dict(
                zip(settings.gdpo_components, settings.gdpo_weights or repeat(1.0), strict=False)  # no end to ones
            ),
        )

    def loss(self) -> Sequence[LossTerm]:
        """Return the policy loss, which is sent to every rank of the actor: PPO's, with the configured regularisers."""
        return clipped_loss(self.config.actor)

    def batch_metrics(self, batch: DataProto) -> Metrics:
        """Compute metrics of the batch that is about to be trained on."""
        found = batch_metrics(batch, self.config.data.max_response_length)
        # Of the chosen groups it would stay near a half, however well the policy does: that of all drawn is known.
        if self.config.data.refill_draws:
            found.pop("acc", None)
        return found


def score_episodes(batch: DataProto, reward_fn: RewardFunction | None) -> DataProto:
    """Set ``token_level_scores`` from the source, else from ``reward_fn``; raises ``InvalidField`` with neither."""
    if "token_level_scores" in batch:
        scores = batch.tensor("token_level_scores")
    # Scores of 0 for all would train on KL and entropy alone, and look like a policy that learns nothing.
    elif reward_fn is None:
        raise InvalidField("token_level_scores", "is missing: rollouts are not graded and there is no reward_fn")
    else:
        scores = reward_fn(batch)
    return batch.with_tensors(token_level_scores=check_scores(scores, batch))
