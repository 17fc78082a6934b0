"""Losses worked out by hand, in every way to divide them; gradients in float64; what is off a mask never counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.learners.actor import Actor
from fathom.trainers.objectives.policy_loss import (
    Totals,
    aggregate,
    cispo_loss,
    importance_weights,
    kl_loss,
    policy_loss,
    token_log_probs,
    value_loss,
)
from fathom.trainers.objectives.preference_loss import preference_loss, sft_loss
from tests.unit.trainers.learners.test_learners import batch, model, settings

NAN = float("nan")
MASK = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # The terms that count are 1, 2 and 3: their sum is 6, over 3 tokens 2, over 2 rows 3; means of rows are 1.5 and
        # 3.
        ("token-mean", 2.0), ("token-sum", 6.0), ("seq-mean-token-sum", 3.0), ("seq-mean-token-mean", 2.25),
        ("seq-mean-token-sum-norm", 1.0),
    ],
)  # fmt: skip
def test_every_denominator_by_hand(mode: Any, expected: float) -> None:
    """Rows with 1, 2 and with 3, and one without a trained token, which is no row."""
    terms = torch.tensor([[1.0, 2.0, NAN], [3.0, 9.0, 9.0], [9.0, NAN, 9.0]])
    assert aggregate(terms, MASK, Totals.of(MASK), mode).item() == pytest.approx(expected)


def test_an_unknown_denominator_is_named() -> None:
    with pytest.raises(InvalidField, match="loss_agg"):
        aggregate(torch.ones(1, 1), torch.ones(1, 1), Totals(1, 1, 1), "token-median")  # type: ignore[arg-type]


VALUES, OLD, RETURNS = [1.0, 3.0, 0.0], [0.8, 2.0, 1.0], [2.0, 2.2, 0.1]


def test_value_loss_by_hand() -> None:
    """Clipped to old ± 0.5: 1.0, 2.5, 0.5; the greater errors are 1, 0.64 and 0.16, of which the last is clipped."""
    found = value_loss(*(torch.tensor([one]) for one in (VALUES, OLD, RETURNS)), torch.ones(1, 3), Totals(3, 1, 3))  # type: ignore[arg-type]
    assert found.loss.item() == pytest.approx(0.5 * (1.0 + 0.64 + 0.16) / 3)
    assert found.clip_fraction.item() == pytest.approx(1 / 3)
    assert found.explained_variance.item() == pytest.approx(1 - 0.54 / (0.8955556 + 1e-5), abs=1e-5)


def test_value_loss_knows_nothing_of_what_is_off_the_mask() -> None:
    values = torch.tensor([[*VALUES, NAN]], requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0]])
    given = torch.tensor([[*OLD, 1e9]]), torch.tensor([[*RETURNS, NAN]])
    loss = value_loss(values, *given, mask, Totals(3, 1, 4)).loss
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.3)
    assert values.grad is not None
    assert values.grad[0, 3] == 0
    assert torch.isfinite(values.grad).all()


@pytest.mark.parametrize(
    ("ratios", "per_sequence", "expected"),
    [((1.5, 3.0), False, [1.5, 2.0, 0.0]), ((1.5, 3.0), True, [2.0, 2.0, 0.0]), ((0.5, 1.2), True, [0.6, 0.6, 0.0])],
)
def test_importance_weights_by_hand(ratios: tuple[float, float], per_sequence: bool, expected: list[float]) -> None:
    """Truncated at 2; of a sequence the product; no gradient, and 0 off the mask."""
    old = torch.tensor([[math.log(ratio) for ratio in ratios] + [NAN]], requires_grad=True)
    found = importance_weights(old, torch.zeros(1, 3), torch.tensor([[1, 1, 0]]), cap=2.0, per_sequence=per_sequence)
    assert found[0].tolist() == pytest.approx(expected)
    assert not found.requires_grad


OF_2_AND_4 = (torch.tensor([2.0]), torch.tensor([4.0]))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, 0.644397), ({"label_smoothing": 0.1}, 0.654397), ({"kind": "hinge"}, 0.9),
        ({"sft_weight": 0.5, "lengths": OF_2_AND_4}, 0.894397), ({"kind": "ipo", "lengths": OF_2_AND_4}, 21.390625),
    ],
)  # fmt: skip
def test_the_family_of_dpo_by_hand(more: dict[str, Any], expected: float) -> None:
    """Log-ratios 0.5 and -0.5, so D = 1, beta 0.1; for ipo per token of 2 and 4: (0.25 + 0.125 - 5)^2."""
    sums = [torch.tensor([value]) for value in (-1.0, -2.0, -1.5, -1.5)]
    found = preference_loss(*sums, **more)
    assert found.loss.item() == pytest.approx(expected, rel=1e-5)
    assert (found.chosen_reward.item(), found.rejected_reward.item()) == pytest.approx((0.05, -0.05))
    assert (found.accuracy.item(), found.margin.item()) == pytest.approx((1.0, 0.1))


def test_imitation_beside_dpo_is_per_token_of_each_chosen_side() -> None:
    """Two pairs with no margin: log 2, and 0.5 times the mean of 4 / 2 and 30 / 10 nats, whichever answer is longer."""
    chosen, zero = torch.tensor([-4.0, -30.0]), torch.zeros(2)
    lengths = (torch.tensor([2.0, 10.0]), torch.tensor([3.0, 3.0]))
    found = preference_loss(chosen, zero, chosen, zero, sft_weight=0.5, lengths=lengths)
    assert found.loss.item() == pytest.approx(math.log(2) + 0.5 * 2.5)
    with pytest.raises(InvalidField, match="lengths"):
        preference_loss(chosen, zero, chosen, zero, sft_weight=0.5)


def test_sft_divides_by_the_tokens_of_the_whole_batch() -> None:
    log_probs, mask = torch.tensor([[-1.0, -2.0, NAN]]), torch.tensor([[1, 1, 0]])
    assert sft_loss(log_probs, mask, 6.0).item() == pytest.approx(0.5)
    with pytest.raises(InvalidField, match="loss_mask"):
        sft_loss(log_probs, mask, 0.0)


def test_entropy_by_hand() -> None:
    """Two tokens at 3/4 and 1/4."""
    logits = torch.tensor([[[math.log(3.0), 0.0], [0.0, 0.0]]])
    log_probs, entropy = token_log_probs(logits, torch.tensor([[0, 1]]), 1.0)
    assert entropy[0, 1].item() == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert log_probs[0, 1].item() == pytest.approx(math.log(0.25))


DRAW = torch.Generator().manual_seed(4)
OTHER, ADVANTAGES = (torch.randn(3, 4, dtype=torch.float64, generator=DRAW) * scale for scale in (0.3, 1.0))
CUT = torch.tensor([[1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 1, 0]])
SEQUENCES = torch.tensor([[0, 2, 1, 4], [3, 3, 0, 1], [1, 0, 2, 2]])
GRADIENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "value loss": lambda x: value_loss(x, OTHER, ADVANTAGES, CUT, Totals.of(CUT)).loss,
    "policy loss, dual clip": lambda x: (
        policy_loss(x, OTHER, ADVANTAGES, CUT, Totals.of(CUT), clip_high=0.28, dual_clip=3.0).loss
    ),
    "policy loss, ratio of the sequence": lambda x: (
        policy_loss(x, OTHER, ADVANTAGES, CUT, Totals.of(CUT), mode="seq-mean-token-mean", level="sequence").loss
    ),
    "k3, weighted": lambda x: kl_loss(x, OTHER, CUT, Totals.of(CUT), old_log_probs=ADVANTAGES),
    "policy loss, weighted": lambda x: (
        policy_loss(
            x, OTHER, ADVANTAGES, CUT, Totals.of(CUT), weights=ADVANTAGES.abs(), mode="seq-mean-token-mean"
        ).loss
    ),
    "k1": lambda x: kl_loss(x, OTHER, CUT, Totals.of(CUT), kind="k1"),
    "k2": lambda x: kl_loss(x, OTHER, CUT, Totals.of(CUT), kind="k2"),
    "k3": lambda x: kl_loss(x, OTHER, CUT, Totals.of(CUT), kind="k3"),
    "dpo": lambda x: (
        preference_loss(
            x[:, 0],
            x[:, 1],
            OTHER[:, 0],
            OTHER[:, 1],
            label_smoothing=0.1,
            sft_weight=0.2,
            lengths=(CUT.sum(1), CUT.sum(1)),
        ).loss
    ),
    "ipo": lambda x: (
        preference_loss(
            x[:, 0],
            x[:, 1],
            OTHER[:, 0],
            OTHER[:, 1],
            kind="ipo",
            lengths=(OTHER[:, 2].abs() + 1, OTHER[:, 3].abs() + 1),
        ).loss
    ),
    "sft": lambda x: sft_loss(x, CUT, 9.0),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_in_float64_against_finite_differences(name: str) -> None:
    start = (OTHER + 0.37 * ADVANTAGES).requires_grad_()
    assert torch.autograd.gradcheck(GRADIENTS[name], (start,))


@given(st.integers(0, 10_000), st.floats(-1e9, 1e9))
def test_no_loss_feels_what_is_off_its_mask(seed: int, garbage: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    mask = torch.rand(3, 5, generator=draw) > 0.4
    mask[0, 0] = True
    totals = Totals.of(mask)
    one, two, three = (torch.randn(3, 5, generator=draw) for _ in range(3))
    dirty = [tensor.masked_fill(~mask, value) for tensor, value in ((one, garbage), (two, NAN), (three, garbage))]
    for loss in (
        lambda a, b, c: policy_loss(a, b, c, mask, totals).loss, lambda a, b, c: value_loss(a, b, c, mask, totals).loss,
        lambda a, b, c: policy_loss(a, b, c, mask, totals, level="sequence").loss,
        lambda a, b, c: cispo_loss(a, b, c, mask, totals, level="sequence_token").loss,
        lambda a, b, c: kl_loss(a, b, mask, totals, old_log_probs=c),
        lambda a, b, c: kl_loss(a, b, mask, totals), lambda a, b, c: sft_loss(a, mask, totals.tokens),
    ):  # fmt: skip
        assert loss(*dirty).item() == loss(one, two, three).item()


@pytest.mark.parametrize("temperature", [0.6, 1.3])
@pytest.mark.parametrize("cut", ["ppo_micro_batch_size_per_gpu=1", "use_dynamic_bsz=true"])
def test_an_update_begins_with_ratios_of_one(temperature: float, cut: str) -> None:
    """Pitfall: old log-probabilities taken at another temperature, dropout state or padding than the update's."""
    torch.set_num_threads(1)
    config = settings(f"actor.{cut}", "actor.ppo_max_token_len_per_gpu=20", "actor.ppo_mini_batch_size=8")
    data, actor = batch(temperature), Actor(config.actor, model(config))
    known = data.union(actor.compute_log_prob(data).select(["old_log_probs"]))
    metrics = actor.update_policy(known)
    assert metrics["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["actor/pg_clipfrac"] == 0.0
