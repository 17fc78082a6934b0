"""Advantages and losses: hand-computed values, invariances, gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.trainers.objectives.advantages import group_advantages
from fathom.trainers.objectives.policy_loss import Totals, kl_loss, policy_loss, token_log_probs


def test_advantages_by_hand() -> None:
    rewards = torch.tensor([[0.0, 1.0, 2.0], [5.0, 5.0, 5.0]])
    expected = torch.tensor([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])  # std of 0, 1, 2 is 1
    assert torch.allclose(group_advantages(rewards), expected, atol=1e-5)
    # Dr. GRPO leaves the standard deviation out; here that is 1, so both agree.
    assert torch.equal(group_advantages(rewards, norm_by_std=False), expected)
    # A group of one has no other to compare with: the reward itself is the advantage.
    assert torch.allclose(group_advantages(torch.tensor([[2.0]])), torch.tensor([[2.0]]))


@given(st.lists(st.lists(st.floats(-10, 10, width=32), min_size=4, max_size=4), min_size=1, max_size=5))
def test_advantages_are_centred_and_follow_their_rewards(rows: list[list[float]]) -> None:
    rewards = torch.tensor(rows)
    advantages = group_advantages(rewards)
    assert torch.allclose(advantages.mean(dim=1), torch.zeros(len(rows)), atol=1e-4)
    # A permutation of a group's samples may move the advantages, never change them.
    order = torch.tensor([2, 0, 3, 1])
    assert torch.allclose(group_advantages(rewards[:, order]), advantages[:, order], atol=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_is_named(bad: float) -> None:
    with pytest.raises(InvalidField, match="row 1, sample 0"):
        # A NaN would spread over its group by the mean, and over the model by the next step.
        group_advantages(torch.tensor([[0.0, 1.0], [bad, 1.0]]))
    with pytest.raises(InvalidField, match="shape"):
        group_advantages(torch.zeros(3))


def test_policy_loss_by_hand() -> None:
    old = torch.zeros(1, 3)
    new = torch.log(torch.tensor([[1.5, 0.5, 1.1]]))
    advantages = torch.tensor([[1.0, -1.0, 2.0]])
    result = policy_loss(new, old, advantages, torch.ones(1, 3), Totals(3.0, 1.0, 3.0))
    # -1.2 (clipped from 1.5), +0.8 (clipped from 0.5), -2.2
    assert result.loss.item() == pytest.approx((-1.2 + 0.8 - 2.2) / 3)
    # The ratios 1.5 and 0.5 lie outside 0.8 to 1.2, the ratio 1.1 within.
    assert result.clip_fraction.item() == pytest.approx(2 / 3)
    assert result.approx_kl.item() == pytest.approx(-(math.log(1.5) + math.log(0.5) + math.log(1.1)) / 3)


def test_dual_clip_bounds_negative_advantages() -> None:
    # The ratio is e^3 = 20: with a negative advantage PPO's minimum takes it whole, and one token outweighs the batch.
    new, old = torch.full((1, 1), 3.0), torch.zeros(1, 1)
    minus = -torch.ones(1, 1)
    free = policy_loss(new, old, minus, torch.ones(1, 1), Totals(1.0, 1.0, 1.0)).loss
    bounded = policy_loss(new, old, minus, torch.ones(1, 1), Totals(1.0, 1.0, 1.0), dual_clip=3.0).loss
    assert (free.item(), bounded.item()) == (pytest.approx(math.exp(3.0)), pytest.approx(3.0))


def test_k3_by_hand_and_never_negative() -> None:
    new, reference = torch.tensor([[0.0, -1.0]]), torch.tensor([[-0.5, -1.0]])
    value = kl_loss(new, reference, torch.ones(1, 2), Totals(2.0, 1.0, 2.0)).item()
    # Of the first token e^-0.5 + 0.5 - 1; the second agrees with its reference and adds nothing.
    assert value == pytest.approx((math.exp(-0.5) + 0.5 - 1.0) / 2)
    random = torch.randn(4, 5), torch.randn(4, 5)
    assert kl_loss(*random, torch.ones(4, 5), Totals(20.0, 4.0, 5.0)) >= 0


@pytest.mark.parametrize("garbage", [0.0, 1e9, float("nan")])
def test_what_is_off_the_mask_changes_nothing(garbage: float) -> None:
    new = torch.tensor([[-0.5, -0.7, garbage]], requires_grad=True)
    old, advantages = torch.tensor([[-0.6, -0.7, garbage]]), torch.tensor([[1.0, -1.0, garbage]])
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    loss = policy_loss(new, old, advantages, mask, Totals(2.0, 1.0, 3.0)).loss
    loss.backward()
    clean = policy_loss(new[:, :2], old[:, :2], advantages[:, :2], mask[:, :2], Totals(2.0, 1.0, 2.0)).loss
    # The third total, the longest row, differs between the two calls; the mode by tokens does not read it.
    assert loss.item() == pytest.approx(clean.item())
    assert new.grad is not None
    assert new.grad[0, 2] == 0.0


@pytest.mark.parametrize("size", [1, 2, 6])
def test_any_split_into_micro_batches_has_the_same_gradient(size: int) -> None:
    torch.manual_seed(0)
    new, old, advantages = torch.randn(6, 4, requires_grad=True), torch.randn(6, 4), torch.randn(6, 4)
    # Four tokens of ten off the mask, so that micro-batches have different numbers of trained tokens.
    mask = (torch.rand(6, 4) > 0.4).float()
    # The totals are those of the whole batch: a mean per micro-batch would weigh its tokens by how few they are.
    totals = Totals.of(mask)
    policy_loss(new, old, advantages, mask, totals).loss.backward()
    whole = new.grad
    new.grad = None
    for start in range(0, 6, size):
        rows = slice(start, start + size)
        policy_loss(new[rows], old[rows], advantages[rows], mask[rows], totals).loss.backward()
    assert whole is not None
    assert new.grad is not None
    assert torch.allclose(new.grad, whole, atol=1e-6)


def test_gradients_against_finite_differences() -> None:
    torch.manual_seed(1)
    # Small, so that no ratio sits on the edge of the clip, where the loss has no derivative.
    new = torch.randn(3, 4, dtype=torch.float64, requires_grad=True) * 0.1
    old, advantages = torch.randn(3, 4, dtype=torch.float64) * 0.1, torch.randn(3, 4, dtype=torch.float64)
    mask = torch.ones(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: policy_loss(x, old, advantages, mask, Totals(12.0, 3.0, 4.0)).loss, (new,)
    )
    assert torch.autograd.gradcheck(lambda x: kl_loss(x, old, mask, Totals(12.0, 3.0, 4.0)), (new,))


def test_log_probs_belong_to_the_token_they_predict() -> None:
    logits = torch.zeros(1, 3, 4)
    # Position 0 predicts the token at position 1: the sharp logit for token 2 belongs to the second id.
    logits[0, 0, 2] = 10.0
    log_probs, entropy = token_log_probs(logits, torch.tensor([[1, 2, 3]]), 1.0)
    # log(e^10 / (e^10 + 3)) = -0.000136; without a preference each of four tokens has -log 4.
    assert log_probs[0].tolist() == pytest.approx([0.0, -0.000136, -math.log(4)], abs=1e-5)
    assert entropy[0, 2].item() == pytest.approx(math.log(4))
    cooler, _ = token_log_probs(logits, torch.tensor([[1, 2, 3]]), 5.0)
    # At temperature 5 the logit of 10 is one of 2.
    assert cooler[0, 1].item() == pytest.approx(math.log(math.exp(2) / (math.exp(2) + 3)))
