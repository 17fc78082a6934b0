"""BRPO: pairwise rewards against reference members of the same group.

An answer's advantage is a pairwise judge's verdict against a reference drawn from its own group; no mean is subtracted
and nothing is divided. Source: Writing-Zero, arXiv 2506.00103; several references per group are this project's
generalisation. Episodes arrive ungraded from the planner; ``PairwiseGrader`` draws references, asks the reward service
for verdicts and turns them into rewards. Rows are group-major; B rows, T tokens.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fathom.api.planner.v1.trajectory_pb2 import Trajectory
from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.core.ids import new_id
from fathom.domain.grading.episodes import CITATION
from fathom.trainers.algorithms.algorithm import Algorithm
from fathom.trainers.batch import DataProto
from fathom.trainers.batch_ops import outcomes
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.brpo import BrpoConfig
from fathom.trainers.interfaces import Metrics
from fathom.trainers.rollouts.groups import Group
from fathom.trainers.rollouts.requests import question_of

STYLES = {"pairwise": pb.JUDGE_STYLE_PAIRWISE, "rubric": pb.JUDGE_STYLE_RUBRIC}
# The reward service's own bound on the pairs of one call; a larger batch is judged in several.
MAX_PAIRS = 256
# Beyond these a group teaches its reference's quality, or the judge's failures, instead of its answers'.
SKEW, MAX_FAILED = 0.6, 0.2


@dataclass(frozen=True)
class Comparison:
    """An answer's row, and the row of the reference in the same group it is compared with."""

    row: int
    reference: int


@dataclass(frozen=True)
class Pairwise:
    """Rewards of a batch: ``advantages`` [B] float32 in [-1, 1], 0 for dropped groups; ``kept`` [B] bool; metrics."""

    advantages: Tensor
    kept: Tensor
    metrics: Mapping[str, float]


def draw_comparisons(uids: Sequence[str], *, references: int = 1, seed: int = 0) -> list[Comparison]:
    """Pair every row with its group's drawn references, except itself, in the order of rows.

    ``uids`` name each row's group. References are drawn uniformly without replacement, seeded by ``seed`` and the
    group's name, so that draws of different groups are independent. Raises ``InvalidField("references")`` for a number
    that leaves a group no row to compare.
    """
    groups = group_rows(uids)
    found = []
    for uid, rows in groups.items():
        if not 1 <= references < len(rows):
            raise InvalidField("references", f"must be 1 to {len(rows) - 1} for the group {uid!r} of {len(rows)}")
        # Seeded by name, not by one generator for the batch: a group's references do not depend on which groups come
        # before it.
        drawn = sorted(random.Random(f"{seed}:{uid}").sample(rows, references))
        found += [Comparison(row, reference) for row in rows for reference in drawn if row != reference]
    return sorted(found, key=lambda one: (one.row, one.reference))


def pairwise_rewards(
    uids: Sequence[str],
    compared: Sequence[Comparison],
    outcomes: Sequence[float | None],
    *,
    skew: float = SKEW,
    max_failed: float = MAX_FAILED,
) -> Pairwise:
    """Compute R_i, the mean of a row's ``outcomes`` over its references, which is its advantage.

    ``outcomes`` of ``compared``: 1 for a win of the row, -1 for a loss, 0 for a tie, None when the judge failed; a
    failure counts 0, not as a loss. A row that is the only reference has no comparison and gets 0. A group is dropped
    when
    |sum of R| / its rows exceeds ``skew``, or when more than ``max_failed`` of its comparisons failed. Raises
    ``InvalidField("outcomes")`` naming an invalid one.
    """
    if len(compared) != len(outcomes):
        raise InvalidField("outcomes", f"has {len(outcomes)} entries for {len(compared)} comparisons")
    given: dict[int, list[float | None]] = defaultdict(list)
    for index, (one, outcome) in enumerate(zip(compared, outcomes, strict=True)):
        if outcome is not None and not -1 <= outcome <= 1:
            raise InvalidField(f"outcomes[{index}]", f"must be -1 to 1 or None, not {outcome}")
        if uids[one.row] != uids[one.reference]:
            raise InvalidField(f"compared[{index}]", f"rows {one.row} and {one.reference} are of two groups")
        given[one.row].append(outcome)
    rewards = torch.zeros(len(uids))
    for row, found in given.items():
        # A failure stays in the denominator: a row judged once of three times must not get that single verdict in full.
        rewards[row] = sum(outcome or 0.0 for outcome in found) / len(found)
    kept, reasons = torch.ones(len(uids), dtype=torch.bool), Counter[str]()
    groups = group_rows(uids)
    for rows in groups.values():
        said = [outcome for row in rows for outcome in given[row]]
        reason = drop_reason(float(rewards[rows].sum()), len(rows), said, skew, max_failed)
        if reason:
            reasons[reason] += 1
            kept[rows] = False
    advantages = torch.where(kept, rewards, 0.0)
    return Pairwise(advantages, kept, judging_metrics(advantages, kept, outcomes, reasons, len(groups)))


def drop_reason(total: float, rows: int, outcomes: Sequence[float | None], skew: float, max_failed: float) -> str:
    """Return the reason for dropping a group, "failed" or "skewed"; "" to keep it."""
    failed = sum(outcome is None for outcome in outcomes)
    # Failures may depend on the answer (its length, for one), so that many of them bias the group.
    if not outcomes or failed > max_failed * len(outcomes):
        return "failed"
    # Rounding must not decide at the bound itself.
    return "skewed" if abs(total) / rows > skew + 1e-6 else ""


def judging_metrics(
    advantages: Tensor, kept: Tensor, outcomes: Sequence[float | None], reasons: Mapping[str, int], groups: int
) -> dict[str, float]:
    """Compute the metrics of a batch."""
    judged = [outcome for outcome in outcomes if outcome is not None]
    return {
        "brpo/groups_skewed": reasons.get("skewed", 0) / groups,
        "brpo/groups_failed": reasons.get("failed", 0) / groups,
        "brpo/rows_kept": float(kept.float().mean()),
        "brpo/judge_failed": 1 - len(judged) / max(1, len(outcomes)),
        "brpo/ties": sum(outcome == 0 for outcome in judged) / max(1, len(judged)),
        "brpo/advantage_mean": float(advantages.mean()),
    }


def broadcast(advantages: Tensor, mask: Tensor) -> Tensor:
    """Broadcast each row's advantage [B] over its sampled tokens: [B, T] float32, 0 outside ``mask`` [B, T]."""
    return torch.where(mask.bool(), advantages.unsqueeze(-1), 0.0)


def group_rows(uids: Sequence[str]) -> dict[str, list[int]]:
    """Return the row indices of each group, in order."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, uid in enumerate(uids):
        groups[uid].append(row)
    return dict(groups)


def read_outcome(judgement: pb.Judgement, tie: float = 0.0) -> float | None:
    """Return the left answer's outcome: 1 when better, -1 when worse, ``tie`` when even, None when not judged.

    The paper counts a tie as a loss (``tie=-1``). Disagreeing votes become a tie or a loss according to the reward
    service's settings.
    """
    if judgement.grade == pb.GRADE_UNSPECIFIED:
        return None
    if judgement.grade == pb.GRADE_EVEN:
        return tie
    return 1.0 if judgement.grade > pb.GRADE_EVEN else -1.0


async def judge_pairs(
    clients: Clients,
    questions: Sequence[str],
    answers: Sequence[str],
    compared: Sequence[Comparison],
    *,
    style: pb.JudgeStyle = pb.JUDGE_STYLE_UNSPECIFIED,
    votes: int = 0,
    tie: float = 0.0,
    timeout_s: float = 600.0,
) -> list[float | None]:
    """Judge the comparisons with the reward service and return their outcomes.

    ``questions`` and ``answers`` are by row. Raises ``FathomError`` when the service does not answer; a pair on which
    the judge fails gets None.
    """
    found: list[float | None] = []
    for start in range(0, len(compared), MAX_PAIRS):
        pairs = [
            pb.Pair(question=questions[one.row], left=answers[one.row], right=answers[one.reference])
            for one in compared[start : start + MAX_PAIRS]
        ]
        request = pb.JudgePairsRequest(request_id=new_id("brpo"), pairs=pairs, style=style, votes=votes)
        response = await clients.reward.judge_pairs(request, timeout_s=timeout_s)
        found += [read_outcome(judgement, tie) for judgement in response.judgements]
    return found


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
        compared = draw_comparisons(uids, references=self.config.references, seed=self.seed)
        given = await judge_pairs(
            self.clients,
            [question_of(group.row) for group, _ in rows],
            [text_to_judge(episode) for _, episode in rows],
            compared,
            style=STYLES[self.config.style],
            votes=self.config.votes,
            tie=self.config.tie,
            timeout_s=self.config.timeout_s,
        )
        if not rows:
            return [assign_rewards(group, iter([(0.0, True)])) for group in groups], {}
        found = pairwise_rewards(uids, compared, given, skew=self.config.skew, max_failed=self.config.max_failed)
        values = iter(zip(found.advantages.tolist(), found.kept.tolist(), strict=True))
        alone = ((0.0, True) for _ in groups)
        return [assign_rewards(one, values if len(one.episodes) > 1 else alone) for one in groups], dict(found.metrics)


def assign_rewards(group: Group, values: Iterator[tuple[float, bool]]) -> Group:
    """Return the group with the next values as its episodes' rewards."""
    return Group(group.row, tuple(set_reward(episode, *next(values)) for episode in group.episodes))


def text_to_judge(episode: Trajectory) -> str:
    """Return the text to judge: the answer without citations, else the last completion; never empty."""
    last = episode.steps[-1].completion.text if episode.steps else ""
    # Citations are markup of this system: what the answer says is judged, not how many of them it has.
    return CITATION.sub("", episode.answer.markdown).strip() or last.strip() or "(no answer)"


def set_reward(episode: Trajectory, value: float, kept: bool) -> Trajectory:
    """Return a copy of the episode with the judge's reward."""
    copy = Trajectory.FromString(episode.SerializeToString())
    copy.reward = value
    # The planner's components belong to no grader of this algorithm and would be logged as rewards.
    copy.reward_components.clear()
    copy.reward_components.update({"pairwise": value, "kept": float(kept)})
    return copy


class BRPO(Algorithm):
    """A row's reward is its advantage, neither centred nor divided by a deviation."""

    estimators = ("grpo",)

    def __init__(self, config: TrainConfig) -> None:
        """Keep the settings; raises ``InvalidField("brpo.references")`` when they leave a group no row to compare."""
        super().__init__(config)
        if config.brpo.references >= config.rollout.n:
            raise InvalidField("brpo.references", f"must be below rollout.n, which is {config.rollout.n}")

    def grader(self, clients: Clients) -> PairwiseGrader:
        """Return the judge of an episode against members of its group."""
        return PairwiseGrader(clients, self.config.brpo, self.config.trainer.seed)

    def advantages(self, batch: DataProto) -> DataProto:
        """Set ``advantages`` and ``returns`` [B, T] to the row's outcome on its sampled tokens."""
        advantages = broadcast(outcomes(batch), batch.tensor("response_mask"))
        return batch.with_tensors(advantages=advantages, returns=advantages)
