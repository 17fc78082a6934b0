"""PRIME's pure functions against values worked out by hand and naive loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.objectives.filters import prioritised_groups
from fathom.trainers.objectives.masked import masked_mean, masked_variance, reverse_cumsum
from fathom.trainers.prime import prime_core_algos as algos

MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).float()
ACC = torch.tensor([1.0, 0.0, 1.0, 0.0])


def naive_rloo(rm: Tensor, acc: Tensor, mask: Tensor, n: int, dpo: float, gt: float) -> Tensor:
    """Returns of the two sources, one cell after another."""
    rows, width = mask.shape
    found = torch.zeros(rows, width)
    for i in range(rows):
        group = range(i // n * n, i // n * n + n)
        lengths = {j: int(mask[j].sum()) for j in group}
        means = {j: sum(rm[j, t].item() for t in range(lengths[j])) / lengths[j] for j in group}
        # The implicit reward is a return: each token has what comes after it, less the group's mean.
        for t in range(lengths[i]):
            for s in range(t, lengths[i]):
                found[i, t] += dpo * (rm[i, s].item() * n / (n - 1) - sum(means.values()) / (n - 1))
            # The outcome stands at the last token, so every token before has it whole.
            found[i, t] += gt * (acc[i].item() * n / (n - 1) - sum(acc[j].item() for j in group) / (n - 1))
    return found


def test_two_sources_against_a_naive_loop() -> None:
    torch.manual_seed(0)
    rm = torch.randn(4, 4) * MASK
    sources = {"rm_scores": (rm, 5.0), "acc": (ACC, 3.0)}
    advantages, returns = algos.compute_rloo_advantage_return(sources, MASK, 2)
    assert torch.allclose(returns, naive_rloo(rm, ACC, MASK, 2, 5.0, 3.0), atol=1e-4)
    # The recipe whitens the sum of the sources over all trained tokens of the batch.
    assert masked_mean(advantages, MASK).item() == pytest.approx(0.0, abs=1e-5)
    assert masked_variance(advantages, MASK).item() == pytest.approx(1.0, abs=1e-4)
    assert advantages[~MASK.bool()].abs().max() == 0


def test_a_group_of_two_by_hand() -> None:
    """acc 1 and 0: leave-one-out advantages +1 and -1, at the last token, so every return of the row has it."""
    _, returns = algos.compute_rloo_advantage_return({"acc": (ACC[:2], 1.0)}, MASK[:2], 2)
    assert returns.tolist() == [[1, 1, 1, 0], [-1, -1, 0, 0]]


@settings(deadline=None)
@given(st.floats(-5, 5, width=32))
# Only the first group is moved: the other must stay as it was.
def test_a_constant_on_a_groups_outcome_changes_nothing(shift: float) -> None:
    plain = algos.source_advantage("acc", ACC, MASK, 2)
    moved = algos.source_advantage("acc", ACC + torch.tensor([shift, shift, 0.0, 0.0]), MASK, 2)
    assert torch.allclose(plain, moved, atol=1e-4)


def test_a_coefficient_of_zero_switches_a_source_off() -> None:
    rm = torch.randn(4, 4)
    alone = algos.compute_rloo_advantage_return({"acc": (ACC, 2.0)}, MASK, 2)
    both = algos.compute_rloo_advantage_return({"acc": (ACC, 2.0), "rm_scores": (rm, 0.0)}, MASK, 2)
    assert torch.equal(alone[0], both[0])


@pytest.mark.parametrize(
    ("sources", "n", "field"),
    [
        ({"acc": (ACC, 1.0)}, 1, "n_samples"),
        ({"acc": (ACC, 1.0)}, 3, "mask"),
        ({"acc": (ACC, 0.0)}, 2, "sources"),
        # Every coefficient at zero leaves nothing to learn from.
        ({}, 2, "sources"),
        ({"acc": (torch.tensor([1.0, math.nan, 0.0, 0.0]), 1.0)}, 2, "acc"),
        ({"rm_scores": (torch.zeros(4, 3), 1.0)}, 2, "rm_scores"),
        ({"acc": (torch.zeros(3), 1.0)}, 2, "acc"),
    ],
)
def test_bad_input_names_its_field(sources: dict[str, tuple[Tensor, float]], n: int, field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        algos.compute_rloo_advantage_return(sources, MASK, n)
    assert bad.value.field == field


def test_direct_rewards_are_beta_times_q() -> None:
    q = torch.randn(4, 4, requires_grad=True)
    rewards = algos.implicit_rewards(q, MASK)
    assert torch.allclose(rewards, 0.05 * q.detach() * MASK)
    # A gradient through the reward would train the policy on its own reward model.
    assert not rewards.requires_grad


def test_lam_of_one_gives_suffix_sums_and_half_by_hand() -> None:
    q = torch.tensor([[1.0, 2.0, 4.0, 9.0]])
    mask = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    assert algos.implicit_rewards(q, mask, beta=1.0, lam=1.0).tolist() == [[7.0, 6.0, 4.0, 0.0]]
    # From the end: 4, 2 + 0.5 · 4 = 4, 1 + 0.5 · 4 = 3.
    assert algos.implicit_rewards(q, mask, beta=1.0, lam=0.5).tolist() == [[3.0, 4.0, 4.0, 0.0]]


def test_with_the_outcome_each_rows_terms_sum_to_it() -> None:
    q = torch.randn(4, 4)
    rewards = algos.implicit_rewards(q, MASK, beta=0.5, lam=1.0, outcome=ACC)
    assert torch.allclose(rewards[:, 0], ACC, atol=1e-5)  # lam 1: the first token has the whole sum


def test_granularity() -> None:
    rewards = torch.tensor([[1.0, 2.0, 3.0, 9.0], [4.0, 5.0, 9.0, 9.0]])
    mask = MASK[:2]
    # By token, the last one is left to the outcome.
    assert algos.token_level_scores(rewards, mask, granularity="token").tolist() == [[1, 2, 0, 0], [4, 0, 0, 0]]
    whole = algos.token_level_scores(rewards, mask, granularity="whole")
    # Summed at the last token of each row: 1 + 2 + 3 and 4 + 5; the 9s are off the mask.
    assert whole.tolist() == [[0, 0, 6, 0], [0, 9, 0, 0]]
    last = algos.token_level_scores(rewards, mask, granularity="token", include_last_token=True)
    assert last.tolist() == [[1, 2, 3, 0], [4, 5, 0, 0]]
    with pytest.raises(InvalidField):
        algos.token_level_scores(rewards, mask, granularity="word")  # type: ignore[arg-type]


def test_norm_bounds_every_return() -> None:
    scores = torch.tensor([[3.0, -1.0, 2.0], [-6.0, 1.0, 0.0]])
    normed = algos.prime_norm(scores, "batch_norm")
    assert reverse_cumsum(normed).abs().max().item() == pytest.approx(1.0, abs=1e-5)
    # The returns of row two begin at -6 + 1 + 0 = -5, the largest in size.
    assert normed[0, 0].item() == pytest.approx(3.0 / 5.0, abs=1e-5)  # the largest is |-6 + 1|
    assert torch.equal(algos.prime_norm(scores, "none"), scores)
    # Micro-batches are divided by the whole batch's largest return, or they would be on different scales.
    parts = [algos.prime_norm(part, "batch_norm", algos.largest_return(scores)) for part in (scores[:1], scores[1:])]
    assert torch.allclose(torch.cat(parts), normed)
    with pytest.raises(InvalidField):
        algos.prime_norm(scores, "rows")  # type: ignore[arg-type]


def test_cross_entropy_is_torchs_and_stays_finite() -> None:
    q = torch.randn(4, 4)
    expected = torch.nn.functional.binary_cross_entropy(torch.sigmoid(0.05 * (q * MASK).sum(-1)), ACC)
    assert algos.compute_ce_dpo_loss_rm(q, ACC, MASK, 0.05).item() == pytest.approx(expected.item(), rel=1e-5)
    # The logarithm of a sigmoid at 10,000 underflows when it is taken in two steps.
    huge = algos.compute_ce_dpo_loss_rm(torch.full((1, 1), 1e4), torch.zeros(1), torch.ones(1, 1), 1.0)
    assert huge.item() == pytest.approx(1e4)


def test_detached_dpo_by_hand() -> None:
    """Sums 2, 1, 0, -1 with outcomes 1, 0, 0, 1 and beta 1: against 0.5 for the right ones, 0.5 for the wrong."""
    q = torch.tensor([[2.0], [1.0], [0.0], [-1.0]], requires_grad=True)
    acc, mask = torch.tensor([1.0, 0.0, 0.0, 1.0]), torch.ones(4, 1)
    group_q, group_acc = (part.detach().reshape(1, 4).expand(4, 4) for part in (q, acc))
    loss = algos.compute_detach_dpo_loss_rm(q, acc, group_q, group_acc, mask, 1.0)
    # The loss of a row is softplus of minus the margin to the mean of its opposites: 0.5 = (1 + 0) / 2 = (2 - 1) / 2.
    expected = [math.log1p(math.exp(-x)) for x in (2 - 0.5, -(1 - 0.5), -(0 - 0.5), -1 - 0.5)]
    assert loss.item() == pytest.approx(sum(expected) / 4, rel=1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    # A step down the gradient raises the sums of the right ones and lowers those of the wrong.
    assert torch.sign(q.grad).flatten().tolist() == [-1, 1, 1, -1]


def test_without_an_opposite_sample_the_baseline_is_zero() -> None:
    q, acc, mask = torch.tensor([[3.0], [1.0]]), torch.ones(2), torch.ones(2, 1)
    group_q, group_acc = q.reshape(1, 2).expand(2, 2), acc.reshape(1, 2).expand(2, 2)
    loss = algos.compute_detach_dpo_loss_rm(q, acc, group_q, group_acc, mask, 1.0)
    # Nothing wrong in the group to compare with: softplus(-3) and softplus(-1).
    assert loss.item() == pytest.approx((math.log1p(math.exp(-3)) + math.log1p(math.exp(-1))) / 2, rel=1e-5)


def test_best_of_n_weights_for_four() -> None:
    ranks = torch.tensor([1.0, 2.0, 3.0, 4.0])
    weights = algos.bon_weights(ranks, ranks.reshape(1, 4).expand(4, 4))
    # n · (k/n)^(n-1) for rank k of n: the density of the best of four.
    assert weights.tolist() == pytest.approx([4 * (k / 4) ** 3 for k in (1, 2, 3, 4)])


@pytest.mark.parametrize("mode", ["none", "bon_acc", "bon_rm"])
def test_a_step_lowers_each_loss(mode: str) -> None:
    torch.manual_seed(0)
    q = (torch.randn(4, 4) * 0.1).requires_grad_()
    group_q = (q * MASK).sum(-1).detach().view(2, 2).repeat_interleave(2, 0)
    group_acc = ACC.view(2, 2).repeat_interleave(2, 0)

    def loss() -> Tensor:
        return algos.compute_detach_dpo_loss_rm(q, ACC, group_q, group_acc, MASK, 1.0, bon_mode=mode)  # type: ignore[arg-type]

    before = loss()
    before.backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    with torch.no_grad():
        q -= 0.1 * q.grad
    assert loss() < before


@pytest.mark.parametrize("mode", ["bon_acc", "bon_rm"])
def test_the_recipes_sum_of_best_of_n_is_the_mean_times_the_rows(mode: str) -> None:
    """``bon_reduction``: the sum's scale grows with the micro-batch."""
    torch.manual_seed(0)
    q = torch.randn(4, 4)
    group_q = (q * MASK).sum(-1).view(2, 2).repeat_interleave(2, 0)
    group_acc = ACC.view(2, 2).repeat_interleave(2, 0)
    mean, total = (
        algos.compute_detach_dpo_loss_rm(q, ACC, group_q, group_acc, MASK, 1.0, bon_mode=mode, bon_reduction=reduction)  # type: ignore[arg-type]
        for reduction in ("mean", "sum")
    )
    # Four rows; the mean is ours, so that a learning rate means the same for every micro-batch.
    assert total.item() == pytest.approx(4 * mean.item())


def test_gradients_against_finite_differences() -> None:
    torch.manual_seed(0)
    # In double precision: gradcheck's differences of 1e-6 drown in float32.
    q = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    mask, acc = MASK.double(), ACC.double()
    group_q = (q * mask).sum(-1).detach().view(2, 2).repeat_interleave(2, 0)
    group_acc = acc.view(2, 2).repeat_interleave(2, 0)
    assert torch.autograd.gradcheck(lambda x: algos.compute_ce_dpo_loss_rm(x, acc, mask, 0.05), (q,))
    for mode in ("none", "bon_acc"):
        assert torch.autograd.gradcheck(
            lambda x, mode=mode: algos.compute_detach_dpo_loss_rm(x, acc, group_q, group_acc, mask, 0.5, bon_mode=mode),
            (q,),
        )


def test_pairwise_accuracy() -> None:
    ones = torch.ones(4, 1)
    right, wrong = torch.tensor([[2.0], [-1.0], [3.0], [0.0]]), torch.tensor([[-2.0], [1.0], [-3.0], [0.0]])
    assert algos.compute_dpo_accuracy(right, ACC, ones, 2).item() == 1.0
    assert algos.compute_dpo_accuracy(wrong, ACC, ones, 2).item() == 0.0
    # Without a wrong answer in the group no pair can be wrong or right: a coin's 0.5.
    assert algos.compute_dpo_accuracy(right, torch.ones(4), ones, 2).item() == 0.5
    assert algos.compute_dpo_abs_accuracy(right, ACC, ones).item() == 0.75  # 0 has no sign


SCORES = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
# The last sample of the last group is 9 tokens long: it decides what a limit of 10 or 11 does.
LENGTHS = torch.tensor([[5, 5, 5, 5], [5, 5, 5, 5], [5, 5, 5, 5], [5, 5, 5, 9]])


def test_groups_that_pass_come_first_and_failing_ones_fill() -> None:
    half = prioritised_groups(SCORES, LENGTHS, keep_groups=2, max_response_length=11)
    assert half.rows.tolist() == [4, 5, 6, 7, 12, 13, 14, 15]
    assert (half.pass_rate, half.too_easy, half.too_hard, half.truncated) == (0.5, 0.25, 0.25, 0.0)
    cut = prioritised_groups(SCORES, LENGTHS, keep_groups=2, max_response_length=10)
    assert cut.rows.tolist() == [4, 5, 6, 7, 0, 1, 2, 3]  # one answer of 9 tokens of 10 counts as cut off
    assert cut.filled_with_failing == 1


def test_without_filters_the_order_stays() -> None:
    kept = prioritised_groups(
        SCORES, LENGTHS, keep_groups=1, max_response_length=1, filter_accuracy=False, filter_truncate=False
    )
    assert kept.rows.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("stable", [True, False])
def test_a_stable_sort_keeps_the_order_and_an_unstable_one_the_flags(stable: bool) -> None:
    """The recipe's sort promises no order among groups of one kind: parity is the same groups, those that pass first."""
    torch.manual_seed(0)
    # 200 groups of pass rates from 0 to 1, so that both kinds are mixed all over.
    scores = (torch.rand(200, 4) < torch.rand(200, 1)).float()
    kept = prioritised_groups(scores, torch.ones(200, 4), keep_groups=200, max_response_length=9, stable_sort=stable)
    order = [row // 4 for row in kept.rows.tolist()[::4]]
    passes = [bool(0.2 <= mean <= 0.8) for mean in scores.mean(dim=1).tolist()]
    flags = [passes[group] for group in order]
    assert sorted(order) == list(range(200))
    assert flags == sorted(flags, reverse=True)
    if stable:
        assert order == [g for g in range(200) if passes[g]] + [g for g in range(200) if not passes[g]]


@pytest.mark.parametrize("groups", [0, 5])
def test_no_more_groups_are_kept_than_there_are(groups: int) -> None:
    with pytest.raises(InvalidField, match="keep_groups"):
        prioritised_groups(SCORES, LENGTHS, keep_groups=groups, max_response_length=11)


def test_bounds_are_inclusive() -> None:
    # Pass rates of exactly 0.2 and 0.8, the recipe's bounds.
    scores = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0]])
    kept = prioritised_groups(scores, torch.ones(2, 5), keep_groups=2, max_response_length=9)
    assert kept.pass_rate == 1.0
