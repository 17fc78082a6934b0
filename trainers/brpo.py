"""BRPO: pairwise rewards against reference members of the same group.

An answer's advantage is a pairwise judge's verdict against a reference drawn from its own group; no mean is subtracted
and nothing is divided. Source: Writing-Zero, arXiv 2506.00103; several references per group are this project's
generalisation. Rows are group-major; B rows, T tokens. The pure functions need torch only.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fathom.api.reward.v1 import reward_pb2 as pb
from fathom.clients import Clients
from fathom.errors import InvalidField
from fathom.ids import new_id

MAX_PAIRS = 256
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


def comparisons(uids: Sequence[str], *, references: int = 1, seed: int = 0) -> list[Comparison]:
    """Pair every row with its group's drawn references, except itself, in the order of rows.

    ``uids`` name each row's group. References are drawn uniformly without replacement, seeded by ``seed`` and the
    group's name, so that draws of different groups are independent. Raises ``InvalidField("references")`` for a number
    that leaves a group no row to compare.
    """
    groups = rows_of(uids)
    found = []
    for uid, rows in groups.items():
        if not 1 <= references < len(rows):
            raise InvalidField("references", f"must be 1 to {len(rows) - 1} for the group {uid!r} of {len(rows)}")
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
        rewards[row] = sum(outcome or 0.0 for outcome in found) / len(found)
    kept, reasons = torch.ones(len(uids), dtype=torch.bool), Counter[str]()
    groups = rows_of(uids)
    for rows in groups.values():
        said = [outcome for row in rows for outcome in given[row]]
        reason = dropped(float(rewards[rows].sum()), len(rows), said, skew, max_failed)
        if reason:
            reasons[reason] += 1
            kept[rows] = False
    advantages = torch.where(kept, rewards, 0.0)
    return Pairwise(advantages, kept, measured(advantages, kept, outcomes, reasons, len(groups)))


def dropped(total: float, rows: int, outcomes: Sequence[float | None], skew: float, max_failed: float) -> str:
    """Return the reason for dropping a group, "failed" or "skewed"; "" to keep it."""
    failed = sum(outcome is None for outcome in outcomes)
    if not outcomes or failed > max_failed * len(outcomes):
        return "failed"
    # Rounding must not decide at the bound itself.
    return "skewed" if abs(total) / rows > skew + 1e-6 else ""


def measured(
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


def rows_of(uids: Sequence[str]) -> dict[str, list[int]]:
    """Return the row indices of each group, in order."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, uid in enumerate(uids):
        groups[uid].append(row)
    return dict(groups)


def outcome_of(judgement: pb.Judgement, tie: float = 0.0) -> float | None:
    """Return the left answer's outcome: 1 when better, -1 when worse, ``tie`` when even, None when not judged.

    The paper counts a tie as a loss (``tie=-1``). Disagreeing votes become a tie or a loss according to the reward
    service's settings.
    """
    if judgement.grade == pb.GRADE_UNSPECIFIED:
        return None
    if judgement.grade == pb.GRADE_EVEN:
        return tie
    return 1.0 if judgement.grade > pb.GRADE_EVEN else -1.0


async def judged(
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
        found += [outcome_of(judgement, tie) for judgement in response.judgements]
    return found
