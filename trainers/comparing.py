"""BRPO as a training (arXiv 2506.00103): the reward service judges episodes in pairs, and that is their advantage.

Episodes come ungraded from planner; ``trainers.brpo`` draws references and turns judgements into rewards.
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
    """Grades groups against members of their own; used as ``PlannerRollouts.grade``."""

    clients: Clients
    config: BrpoConfig
    seed: int

    async def __call__(self, groups: Sequence[Group]) -> tuple[list[Group], Metrics]:
        """The groups with reward and components set, and what was measured of the judge.

        Groups of one, as in a validation, have nobody to be compared with: their reward is 0. Raises what the
        reward service raises; a pair that the judge fails on counts 0.
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
    """The group with the next values as its episodes' rewards."""
    return Group(group.row, tuple(with_reward(episode, *next(values)) for episode in group.episodes))


def said(episode: Trajectory) -> str:
    """What is judged: the answer without its citations, else the last words; never empty."""
    last = episode.steps[-1].completion.text if episode.steps else ""
    return CITATION.sub("", episode.answer.markdown).strip() or last.strip() or "(no answer)"


def with_reward(episode: Trajectory, value: float, kept: bool) -> Trajectory:
    """A copy whose reward is what the judge said."""
    copy = Trajectory.FromString(episode.SerializeToString())
    copy.reward = value
    copy.reward_components.clear()
    copy.reward_components.update({"pairwise": value, "kept": float(kept)})
    return copy


class BRPOTrainer(RayPPOTrainer):
    """A row's reward is its advantage: no mean is taken off, nothing is divided by a deviation."""

    estimators = ("grpo",)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Raises ``InvalidField("brpo.references")`` where they leave a group nobody to compare."""
        super().__init__(*arguments, **named)
        if self.config.brpo.references >= self.config.rollout.n:
            raise InvalidField("brpo.references", f"must be below rollout.n, which is {self.config.rollout.n}")

    def compute_advantage(self, batch: DataProto, metrics: Metrics) -> DataProto:
        """``advantages`` and ``returns`` [B, T]: the row's outcome on its sampled tokens."""
        advantages = broadcast(outcomes(batch), batch.tensor("response_mask"))
        return batch.with_tensors(advantages=advantages, returns=advantages)
