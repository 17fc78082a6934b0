"""BRPO training loop (arXiv 2506.00103): the reward service judges episodes in pairs; the verdict is the advantage.

Episodes arrive ungraded from the planner; ``trainers.brpo`` draws references and turns verdicts into rewards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.clients import Clients
from fathom.errors import InvalidField
from fathom.grading.episodes import CITATION
from trainers.brpo import broadcast, comparisons, judged, pairwise_rewards
from trainers.config.comparing import BrpoConfig
from trainers.data_proto import DataProto
from trainers.ppo import RayPPOTrainer
from trainers.roles import Metrics
from trainers.rollouts.groups import Group
from trainers.rollouts.requests import question_of
from trainers.steps import outcomes

STYLES = {"pairwise": pb.JUDGE_STYLE_PAIRWISE, "rubric": pb.JUDGE_STYLE_RUBRIC}


@dataclass(frozen=True)
class PairwiseGrader:
    """Grades groups against their own members; used as ``PlannerRollouts.grade``."""

    clients: Clients
    config: BrpoConfig
    seed: int

    async def __call__(self, groups: Sequence[Group]) -> tuple[list[Group], Metrics]:
        """Return the groups with rewards and reward components set, and metrics of the judge.

        Groups of one, as in validation, have nothing to compare with and get reward 0. Raises what the reward service
        raises; a pair on which the judge fails counts 0.
        """
        several = [group for group in groups if len(group.episodes) > 1]
        rows = [(group, episode) for group in several for episode in group.episodes]
        uids = [group.uid for group, _ in rows]
        compared = comparisons(uids, references=self.config.references, seed=self.seed)
        given = await judged(
            self.clients,
            [question_of(group.row) for group, _ in rows],
            [said(episode) for _, episode in rows],
            compared,
            style=STYLES[self.config.style],
            votes=self.config.votes,
            tie=self.config.tie,
            timeout_s=self.config.timeout_s,
        )
        if not rows:
            return [rewarded(group, iter([(0.0, True)])) for group in groups], {}
        found = pairwise_rewards(uids, compared, given, skew=self.config.skew, max_failed=self.config.max_failed)
        values = iter(zip(found.advantages.tolist(), found.kept.tolist(), strict=True))
        alone = ((0.0, True) for _ in groups)
        return [rewarded(one, values if len(one.episodes) > 1 else alone) for one in groups], dict(found.metrics)


def rewarded(group: Group, values: Iterator[tuple[float, bool]]) -> Group:
    """Return the group with the next values as its episodes' rewards."""
    return Group(group.row, tuple(with_reward(episode, *next(values)) for episode in group.episodes))


def said(episode: Trajectory) -> str:
    """Return the text to judge: the answer without citations, else the last completion; never empty."""
    last = episode.steps[-1].completion.text if episode.steps else ""
    return CITATION.sub("", episode.answer.markdown).strip() or last.strip() or "(no answer)"


def with_reward(episode: Trajectory, value: float, kept: bool) -> Trajectory:
    """Return a copy of the episode with the judge's reward."""
    copy = Trajectory.FromString(episode.SerializeToString())
    copy.reward = value
    copy.reward_components.clear()
    copy.reward_components.update({"pairwise": value, "kept": float(kept)})
    return copy


class BRPOTrainer(RayPPOTrainer):
    """Trainer in which a row's reward is its advantage, neither centred nor divided by a deviation."""

    estimators = ("grpo",)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Configure the trainer.

        Raises ``InvalidField("brpo.references")`` when they leave a group no row to compare.
        """
        super().__init__(*arguments, **named)
        if self.config.brpo.references >= self.config.rollout.n:
            raise InvalidField("brpo.references", f"must be below rollout.n, which is {self.config.rollout.n}")

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """Set ``advantages`` and ``returns`` [B, T] to the row's outcome on its sampled tokens."""
        advantages = broadcast(outcomes(batch), batch.tensor("response_mask"))
        return batch.with_tensors(advantages=advantages, returns=advantages)
