"""KL in the reward and advantages of a batch: closed forms, groups by index, masks, what bad input says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto, object_array
from fathom.trainers.batch_ops import apply_kl_penalty, compute_advantage
from fathom.trainers.objectives.kl import AdaptiveKLController, FixedKLController
from fathom.trainers.objectives.policy_loss import variance

MASK = torch.tensor([[1, 0, 1, 0], [1, 1, 1, 1]])


def batch(**tensors: Tensor) -> DataProto:
    return DataProto({"response_mask": MASK, **tensors})


def make_groups(rewards: list[float], uids: list[str], **extra: list[str]) -> DataProto:
    mask = torch.tensor([[1, 1, 0]]).repeat(len(rewards), 1)
    scores = torch.zeros(len(rewards), 3)
    scores[:, 1] = torch.tensor(rewards)
    arrays = {name: object_array(values) for name, values in {"uid": uids, **extra}.items()}
    return DataProto({"token_level_rewards": scores, "response_mask": mask}, arrays)


def test_kl_comes_off_the_token_rewards() -> None:
    """R = score - beta KL(old, ref) on the mask; the statistic is the mean over rows of their means."""
    scores = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.5]])
    # 9.0 and NaN stand on an observation and on padding, where nothing may be read.
    old = torch.tensor([[-1.0, 9.0, -2.0, math.nan], [-1.0, -1.0, -1.0, -1.0]])
    reference = torch.tensor([[-1.5, 0.0, -2.25, 0.0], [-1.0, -2.0, -1.0, -1.0]])
    control = FixedKLController(0.1)
    found, metrics = apply_kl_penalty(
        batch(token_level_scores=scores, old_log_probs=old, ref_log_prob=reference), control
    )
    # beta 0.1 times the log-ratios 0.5, 0.25 and 1.0, off the token that has them.
    expected = [[-0.05, 0.0, 1.0 - 0.025, 0.0], [0.0, -0.1, 0.0, 0.5]]
    assert found.tensor("token_level_rewards").flatten().tolist() == pytest.approx([x for row in expected for x in row])
    # The mean of row one over its two trained tokens, of row two over its four, and then over rows.
    assert metrics["actor/reward_kl_penalty"] == pytest.approx(((0.5 + 0.25) / 2 + 1.0 / 4) / 2)
    assert metrics["actor/reward_kl_penalty_coeff"] == control.value == 0.1


def test_the_adaptive_controller_learns_after_the_step() -> None:
    """The step's own beta is the value before; rows, not tokens, move it."""
    control = AdaptiveKLController(0.2, target=0.1, horizon=100)
    data = batch(
        token_level_scores=torch.zeros(2, 4), old_log_probs=torch.zeros(2, 4), ref_log_prob=torch.full((2, 4), -1.0)
    )
    _, metrics = apply_kl_penalty(data, control, "kl")
    assert metrics["actor/reward_kl_penalty_coeff"] == 0.2
    # KL is 1.0 against a target of 0.1, clipped at 0.2; two rows of a horizon of 100.
    assert control.value == pytest.approx(0.2 * (1 + 0.2 * 2 / 100))


@pytest.mark.parametrize(
    ("kind", "term"), [("kl", -0.5), ("abs", 0.5), ("mse", 0.125), ("low_var_kl", math.exp(0.5) - 1.5)]
)
def test_estimators_by_their_names(kind: str, term: float) -> None:
    """Verl's names; one batch, log-ratio -0.5."""
    data = batch(
        token_level_scores=torch.zeros(2, 4), old_log_probs=torch.full((2, 4), -1.0), ref_log_prob=torch.full((2, 4), -0.5)
    )  # fmt: skip
    found, _ = apply_kl_penalty(data, FixedKLController(1.0), kind)
    assert found.tensor("token_level_rewards")[1].tolist() == pytest.approx([-term] * 4, abs=1e-6)
    with pytest.raises(InvalidField, match="kl_kind"):
        apply_kl_penalty(data, FixedKLController(1.0), "full")


def test_gae_with_gamma_and_lambda_one_is_return_less_value() -> None:
    """The sum of rewards to come less V on model tokens, whitened; nothing off the mask."""
    rewards = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.1, 0.0, 0.0, 2.0]])
    values = torch.tensor([[0.5, 7.0, 0.25, 7.0], [0.0, 1.0, 0.5, 0.5]])
    found = compute_advantage(batch(token_level_rewards=rewards, values=values), "gae")
    # Rewards to come on trained tokens; the observation in row one is stepped over.
    to_go = torch.tensor([[1.0, 0.0, 1.0, 0.0], [2.1, 2.0, 2.0, 2.0]])
    raw = (to_go - values)[MASK.bool()]
    whitened = (raw - raw.mean()) / raw.std()
    assert found.tensor("returns").tolist() == [pytest.approx(row) for row in to_go.tolist()]
    assert torch.allclose(found.tensor("advantages")[MASK.bool()], whitened, atol=1e-5)
    assert not found.tensor("advantages")[~MASK.bool()].any()
    # Six trained tokens: the biased variance of values whitened by n - 1 is 5/6.
    assert float(variance(found.tensor("advantages"), MASK)) == pytest.approx(5 / 6, abs=1e-4)


def test_grpo_normalises_by_index_wherever_rows_stand() -> None:
    """Groups are the rows of one uid, also when balancing has moved them."""
    rewards, uids = [1.0, 0.0, 0.0, 4.0, 1.0, 2.0], ["a", "b", "a", "b", "a", "b"]
    found = compute_advantage(make_groups(rewards, uids), "grpo").tensor("advantages")
    for uid in ("a", "b"):
        rows = [row for row, name in enumerate(uids) if name == uid]
        group = np.array([rewards[row] for row in rows])
        # The sample's standard deviation, n - 1 in its denominator; 1e-6 keeps a group of equals finite.
        expected = (group - group.mean()) / (group.std(ddof=1) + 1e-6)
        assert found[rows, 0].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert torch.equal(found[:, 0], found[:, 1])
    assert not found[:, 2].any()
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    moved = compute_advantage(make_groups(rewards, uids).reorder(order), "grpo").tensor("advantages")
    assert torch.allclose(moved, found[order])


def test_groups_may_differ_in_size_and_segments_count_once() -> None:
    """An episode of two rows is one outcome: its score does not weigh twice, and both rows get its advantage."""
    found = compute_advantage(make_groups([1.0, 3.0, 0.0, 1.0, 1.0], list("aabbb")), "rloo").tensor("advantages")[:, 0]
    # Group a: 1 - 3 and 3 - 1. Group b: 0 - (1 + 1) / 2 and twice 1 - (0 + 1) / 2.
    assert found.tolist() == pytest.approx([-2.0, 2.0, -1.0, 0.5, 0.5])
    split = make_groups([1.0, 1.0, 0.0], list("aaa"), episode=["x", "x", "y"])
    # Two rows of episode x are one outcome of 1: against y it is 1 - 0 and 0 - 1.
    assert compute_advantage(split, "rloo").tensor("advantages")[:, 0].tolist() == pytest.approx([1.0, 1.0, -1.0])
    dr = compute_advantage(split, "grpo", norm_by_std=False).tensor("advantages")[:, 0]
    # The mean of the two outcomes is 0.5, not the 2/3 that three rows would give.
    assert dr.tolist() == pytest.approx([0.5, 0.5, -0.5])


def test_what_is_wrong_is_named() -> None:
    """An unknown estimator, a reward that is not finite, groups that are not there, groups of one."""
    data = make_groups([1.0, 0.0], ["a", "a"])
    with pytest.raises(InvalidField, match="adv_estimator"):
        compute_advantage(data, "remax")
    with pytest.raises(InvalidField, match="row 1"):
        compute_advantage(make_groups([1.0, math.nan], ["a", "a"]), "grpo")
    with pytest.raises(InvalidField, match="values"):
        compute_advantage(data, "gae")
    with pytest.raises(InvalidField, match="contiguous"):
        compute_advantage(make_groups([1.0, 0.0, 1.0, 0.0], ["a", "b", "a", "b"]), "grpo", num_repeat=2)
    with pytest.raises(InvalidField, match="groups of one"):
        compute_advantage(make_groups([1.0, 0.0], ["a", "b"]), "rloo")
