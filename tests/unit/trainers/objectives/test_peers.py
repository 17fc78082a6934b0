"""Losses, advantages and weights against what verl's and TRL's own functions answered (``tests/golden/objectives``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fathom.trainers.batch import DataProto, object_array
from fathom.trainers.batch_ops import compute_advantage
from fathom.trainers.objectives.advantages import overlong_penalty
from fathom.trainers.objectives.policy_loss import (
    Totals,
    cispo_loss,
    importance_weights,
    kl_loss,
    policy_loss,
)

SAVED = json.loads((Path(__file__).parents[3] / "golden" / "objectives" / "peers.json").read_text())
Given = dict[str, Tensor]
Loss = Callable[[Given, Tensor], Tensor]


def objective(
    function: Callable[..., Any],
    mode: str,
    advantages: str = "advantages",
    divisor: float = 6.0,
    low: float = 0.2,
    **more: Any,
) -> Loss:
    """One of our losses on a saved batch, as a function of the log-probabilities."""

    def compute(given: Given, log_probs: Tensor) -> Tensor:
        mask = given["mask"]
        kept = Totals.of(mask)
        totals = Totals(kept.tokens, kept.rows, divisor)
        found: Tensor = function(
            log_probs, given["old"], given[advantages], mask, totals, clip_low=low, mode=mode, **more
        ).loss
        return found

    return compute


def with_kl(given: Given, log_probs: Tensor, *, weighted: bool) -> Tensor:
    old, totals = given["old"] if weighted else None, Totals.of(given["mask"])
    distance = kl_loss(log_probs, given["reference"], given["mask"], totals, old_log_probs=old)
    return objective(policy_loss, "token-mean", clip_high=0.28)(given, log_probs) + 0.1 * distance


CLIP = partial(objective, policy_loss, clip_high=0.28)
EACH = "seq-mean-token-mean"
LOSSES: dict[str, tuple[Loss, ...]] = {
    # Two forms with one value; with one advantage per row also with one gradient.
    "verl gspo": (CLIP(EACH, level="sequence"), CLIP(EACH, level="sequence_token")),
    "verl gspo, token advantages": (CLIP(EACH, "token_advantages", level="sequence_token"),),
    "verl cispo": (objective(cispo_loss, "token-mean", clip_high=0.28),),
    "verl clip-higher, token-mean": (CLIP("token-mean", dual_clip=3.0),),
    "verl dr_grpo, divisor 16": (
        # A range that nothing leaves: what is compared is the division.
        objective(policy_loss, "seq-mean-token-sum-norm", divisor=16.0, low=1.0, clip_high=1e9),
    ),
    "trl dapo": (CLIP("token-mean"),),
    "trl dr_grpo, divisor 16": (CLIP("seq-mean-token-sum-norm", divisor=16.0),),
    "trl grpo, sequence": (CLIP(EACH, level="sequence"), CLIP(EACH, level="sequence_token")),
    "trl dapo, k3 of weight 0.1": (partial(with_kl, weighted=False),),
    "trl dapo, corrected k3 of weight 0.1": (partial(with_kl, weighted=True),),
}
WEIGHTS = {
    "verl weights, token, truncated": {"cap": 1.5},
    "verl weights, sequence, truncated": {"cap": 1.5, "per_sequence": True},
    "verl weights, token, masked": {"cap": 1.5, "floor": 0.6, "masked": True},
    "verl weights, sequence, masked": {"cap": 2.5, "floor": 0.3, "masked": True, "per_sequence": True},
}
ADVANTAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "verl reinforce++, gamma 0.9": ("reinforce", {"gamma": 0.9, "whitened": True}),
    "verl reinforce++ baseline": ("grpo", {"norm_by_std": False, "whitened": True}),
    "verl gdpo": ("gdpo", {"components": {"a": 1.0, "b": 0.5, "c": 2.0}}),
    "verl grpo without std": ("grpo", {"norm_by_std": False}),
}
OTHER = {"trl overlong", "trl cispo, at most 1.3"}


@pytest.fixture(params=SAVED["cases"], ids=lambda case: f"seed {case['seed']}")
def case(request: pytest.FixtureRequest) -> tuple[Given, dict[str, Any]]:
    """(batch, the peers' answers by name)"""
    given = {name: torch.tensor(values) for name, values in request.param["given"].items()}
    return given, request.param["answers"]


def test_every_answer_is_compared(case: tuple[Given, dict[str, Any]]) -> None:
    assert case[1].keys() == LOSSES.keys() | WEIGHTS.keys() | ADVANTAGES.keys() | OTHER


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients(case: tuple[Given, dict[str, Any]], name: str) -> None:
    given, answers = case
    for loss in LOSSES[name]:
        assert measure_distance(loss, given, answers[name]) < 2e-6


def measure_distance(loss: Loss, given: Given, expected: dict[str, Any]) -> float:
    """The largest difference of the loss and of its gradient."""
    start = given["log_probs"].clone().requires_grad_()
    value = loss(given, start)
    [gradient] = torch.autograd.grad(value, start)
    of_gradient = float((gradient - torch.tensor(expected["gradient"])).abs().max())
    return max(of_gradient, abs(float(value.detach()) - float(expected["loss"])))


def test_cispo_as_trl_bounds_it(case: tuple[Given, dict[str, Any]]) -> None:
    """TRL's bound is the weight itself, 1.3, and there is none below: a high of 0.3 and a low of 1."""
    given, answers = case

    def loss(given: Given, log_probs: Tensor) -> Tensor:
        mask = given["mask"]
        return cispo_loss(
            log_probs, given["old"], given["advantages"], mask, Totals.of(mask), clip_low=1.0, clip_high=0.3
        ).loss

    assert measure_distance(loss, given, answers["trl cispo, at most 1.3"]) < 2e-6


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_samples(case: tuple[Given, dict[str, Any]], name: str) -> None:
    given, answers = case
    settings: dict[str, Any] = WEIGHTS[name]
    found = importance_weights(given["old"], given["rollout"], given["mask"], **settings)
    assert torch.allclose(found, torch.tensor(answers[name]["weights"]), atol=2e-6)
    if "masked" in name:
        assert 0 < (found == 0).float().mean() < 1, "the case has both kinds"


@pytest.mark.parametrize("name", ADVANTAGES)
def test_advantages(case: tuple[Given, dict[str, Any]], name: str) -> None:
    given, answers = case
    estimator, settings = ADVANTAGES[name]
    arrays = {f"reward/{key}": values.numpy() for key, values in zip("abc", given["components"], strict=True)}
    uids = object_array([str(row // 3) for row in range(len(given["mask"]))])
    batch = DataProto(
        {"token_level_rewards": given["rewards"], "response_mask": given["mask"]}, {"uid": uids, **arrays}
    )
    found = compute_advantage(batch, estimator, **settings)
    assert torch.allclose(found.tensor("advantages"), torch.tensor(answers[name]["advantages"]), atol=5e-6)
    if "returns" in answers[name]:
        assert torch.allclose(found.tensor("returns"), torch.tensor(answers[name]["returns"]), atol=5e-6)


def test_the_punishment_of_length() -> None:
    saved = SAVED["cases"][0]["answers"]["trl overlong"]
    found = overlong_penalty(torch.tensor(saved["lengths"]), 20, 8)
    assert found.tolist() == pytest.approx(saved["penalties"])
