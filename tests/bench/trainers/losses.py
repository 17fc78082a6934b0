"""Advantages and losses against loops over rows and tokens, written from the formulas: time, and largest difference.

The loops are plain Python on lists of floats (float64), which is what they are compared with; ours are float32
tensors on one thread. Rows have lengths of their own, and a stretch of observations within.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fathom.domain.process_reward.losses import BonMode, compute_ce_dpo_loss_rm, compute_detach_dpo_loss_rm
from fathom.domain.process_reward.rewards import implicit_rewards, prime_norm, token_level_scores
from fathom.trainers.objectives.advantages import broadcast, gae, group_advantages, rloo_advantages
from fathom.trainers.objectives.kl import subtract_kl
from fathom.trainers.objectives.policy_loss import Totals, kl_loss, policy_loss, value_loss
from fathom.trainers.prime.prime_core_algos import compute_rloo_advantage_return
from tests.bench.trainers import losses_loops as loops

SHAPES, SAMPLES, ROUNDS = ((64, 512), (128, 1_024), (256, 2_048)), 8, 5
Grid = list[list[float]]
Outcome = float | Grid


@dataclass
class Case:
    """One function on both sides; each gives tensors or nested lists of the same shapes, in the same order."""

    name: str
    ours: Callable[[], tuple[Tensor, ...]]
    loop: Callable[[], tuple[Outcome, ...]]
    seconds: list[float] = field(default_factory=list)


async def run() -> None:
    """Needs torch; a minute."""
    await asyncio.to_thread(compare)


def compare() -> None:
    torch.set_num_threads(1)
    print(f"groups of {SAMPLES}; one thread; CPU time, median of {ROUNDS}; differences are absolute, from float64")
    print(f"{'':<40}{'loop':>12}{'ours':>12}{'ratio':>9}{'difference':>13}{'of':>9}")
    for rows, tokens in SHAPES:
        print(f"B {rows}, T {tokens}")
        for case in cases(rows, tokens):
            started = time.process_time()
            expected = case.loop()
            slow = time.process_time() - started
            for _ in range(ROUNDS):
                started = time.process_time()
                found = case.ours()
                case.seconds.append(time.process_time() - started)
            apart, largest = difference(found, expected)
            fast = statistics.median(case.seconds)
            print(
                f"  {case.name:<38}{slow * 1000:>9.1f} ms{fast * 1000:>9.2f} ms{slow / fast:>9.0f}"
                f"{apart:>13.1e}{largest:>9.1e}"
            )


def difference(found: tuple[Tensor, ...], expected: tuple[Outcome, ...]) -> tuple[float, float]:
    """The largest absolute difference, and the largest number that it is of."""
    known = [torch.tensor(part, dtype=torch.float64) for part in expected]
    apart = max(float((one.double() - other).abs().max()) for one, other in zip(found, known, strict=True))
    return apart, max(float(one.abs().max()) for one in known)


@dataclass
class Batch:
    """Float32 [B, T] unless said; ``scores`` [G, n], ``acc`` [B]; ``lists`` are the same numbers for the loops."""

    mask: Tensor
    rewards: Tensor
    values: Tensor
    old_values: Tensor
    returns: Tensor
    log_probs: Tensor
    old: Tensor
    reference: Tensor
    advantages: Tensor
    q: Tensor
    acc: Tensor
    lists: dict[str, Grid] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("mask", "rewards", "values", "old_values", "returns", "log_probs", "old", "reference", "q"):
            self.lists[name] = getattr(self, name).tolist()
        self.lists["advantages"] = self.advantages.tolist()

    @property
    def outcomes(self) -> Tensor:
        return self.rewards.sum(dim=-1)


def batch(rows: int, tokens: int) -> Batch:
    """Lengths from an eighth to all of the width, a quarter of each row being observations; outcomes 0 or 1."""
    generator = torch.Generator().manual_seed(rows)
    chance = random.Random(rows)
    mask = torch.zeros(rows, tokens)
    acc = torch.tensor([float(chance.random() < 0.5) for _ in range(rows)])
    rewards = torch.zeros(rows, tokens)
    for row in range(rows):
        length = chance.randint(tokens // 8, tokens)
        mask[row, :length] = 1
        mask[row, length // 4 : length // 2] = 0
        rewards[row, length - 1] = acc[row]

    def noise(scale: float) -> Tensor:
        return torch.randn(rows, tokens, generator=generator) * scale * mask

    values, old = noise(0.3), -noise(1.0).abs()
    return Batch(
        mask=mask, rewards=rewards, values=values, old_values=values + noise(0.3), returns=noise(1.0),
        log_probs=old + noise(0.2), old=old, reference=old + noise(0.3), advantages=noise(1.0), q=noise(0.2), acc=acc,
    )  # fmt: skip


def cases(rows: int, tokens: int) -> list[Case]:
    data = batch(rows, tokens)
    return [*of_advantages(data), *of_policies(data), *of_prime(data)]


def of_advantages(data: Batch) -> list[Case]:
    groups, mask, lists = data.outcomes.view(-1, SAMPLES), data.mask, data.lists
    settings = {"gamma": 0.99, "lam": 0.95}
    return [
        Case(
            "GAE, gamma 0.99, lambda 0.95",
            lambda: gae(data.rewards, data.values, mask, **settings),
            lambda: loops.gae(lists["rewards"], lists["values"], lists["mask"], **settings),
        ),
        Case(
            "GAE, gamma 1, lambda 1",
            lambda: gae(data.rewards, data.values, mask),
            lambda: loops.gae(lists["rewards"], lists["values"], lists["mask"], 1.0, 1.0),
        ),
        Case(
            "GRPO",
            lambda: (broadcast(group_advantages(groups), mask),),
            lambda: (loops.grpo(lists["rewards"], lists["mask"], SAMPLES),),
        ),
        Case(
            "RLOO",
            lambda: (broadcast(rloo_advantages(groups), mask),),
            lambda: (loops.rloo(lists["rewards"], lists["mask"], SAMPLES),),
        ),
    ]


def of_policies(data: Batch) -> list[Case]:
    mask, lists = data.mask, data.lists
    totals = Totals.of(mask)
    low, high, dual = 0.2, 0.28, 3.0

    def policy() -> tuple[Tensor, ...]:
        return tuple(
            policy_loss(
                data.log_probs, data.old, data.advantages, mask, totals, clip_low=low, clip_high=high, dual_clip=dual
            )
        )

    def penalty() -> tuple[Tensor, ...]:
        rewards, measured = subtract_kl(data.rewards, data.old, data.reference, mask, 0.001)
        return rewards, torch.tensor(measured)

    return [
        Case(
            "PPO loss, dual clip, its fractions",
            policy,
            lambda: loops.policy_loss(
                lists["log_probs"], lists["old"], lists["advantages"], lists["mask"], low, high, dual
            ),
        ),
        Case(
            "value loss, its fraction and variance",
            lambda: tuple(value_loss(data.values, data.old_values, data.returns, mask, totals)),
            lambda: loops.value_loss(lists["values"], lists["old_values"], lists["returns"], lists["mask"], 0.5),
        ),
        Case(
            "KL loss, k3",
            lambda: (kl_loss(data.log_probs, data.reference, mask, totals),),
            lambda: (loops.kl_loss(lists["log_probs"], lists["reference"], lists["mask"]),),
        ),
        Case(
            "KL in the reward, k1",
            penalty,
            lambda: loops.penalise(lists["rewards"], lists["old"], lists["reference"], lists["mask"], 0.001),
        ),
    ]


def of_prime(data: Batch) -> list[Case]:
    mask, lists, acc = data.mask, data.lists, data.acc.tolist()
    q, beta = data.q, 0.05

    def score_rows() -> tuple[Tensor, ...]:
        rewards = implicit_rewards(q, mask, beta=beta, lam=0.95)
        return (prime_norm(token_level_scores(rewards, mask, granularity="token"), "batch_norm"),)

    group_q = q.sum(dim=-1).view(-1, SAMPLES).repeat_interleave(SAMPLES, dim=0)
    group_acc = data.acc.view(-1, SAMPLES).repeat_interleave(SAMPLES, dim=0)

    def make_detached_case(name: str, mode: BonMode) -> Case:
        return Case(
            f"PRIME {name} loss",
            lambda: (
                compute_detach_dpo_loss_rm(
                    q, data.acc, group_q, group_acc, mask, beta, bon_mode=mode, bon_reduction="mean"
                ),
            ),
            lambda: (loops.detached_dpo(lists["q"], lists["mask"], acc, SAMPLES, beta, mode),),
        )

    return [
        Case(
            "PRIME scores, lambda 0.95, batch_norm",
            score_rows,
            lambda: (loops.prime_scores(lists["q"], lists["mask"], beta, 0.95),),
        ),
        Case(
            "PRIME fusion of two sources",
            lambda: compute_rloo_advantage_return({"rm_scores": (q, 5.0), "acc": (data.acc, 5.0)}, mask, SAMPLES),
            lambda: loops.prime_fusion(lists["q"], acc, lists["mask"], SAMPLES, 5.0, 5.0),
        ),
        Case(
            "PRIME ce loss",
            lambda: (compute_ce_dpo_loss_rm(q, data.acc, mask, beta),),
            lambda: (loops.cross_entropy(lists["q"], lists["mask"], acc, beta),),
        ),
        make_detached_case("dpo", "none"),
        make_detached_case("bon_acc", "bon_acc"),
        make_detached_case("bon_rm", "bon_rm"),
    ]
