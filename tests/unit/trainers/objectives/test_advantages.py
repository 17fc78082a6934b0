"""Advantages and masked statistics: values worked out by hand, invariances, what bad input says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.trainers.objectives.advantages import broadcast, gae, overlong_penalty, rloo_advantages
from fathom.trainers.objectives.kl import AdaptiveKLController, FixedKLController, kl_terms, subtract_kl
from fathom.trainers.objectives.masked import at_last, last_cells, masked_mean, masked_variance, reverse_cumsum, whiten

NAN = float("nan")


def test_masked_statistics_ignore_what_is_off_the_mask() -> None:
    values, mask = torch.tensor([[1.0, 3.0, NAN]]), torch.tensor([[1.0, 1.0, 0.0]])
    assert masked_mean(values, mask).item() == pytest.approx(2.0)
    assert masked_variance(values, mask).item() == pytest.approx(2.0)  # unbiased: (1 + 1) / 1
    # The deviations are -1 and +1 and the standard deviation is the root of 2, so the whitened values are ∓1/√2.
    assert whiten(values, mask).tolist()[0] == pytest.approx([-(0.5**0.5), 0.5**0.5, 0.0])
    # Without the shift the mean of 2 comes back on top.
    assert whiten(values, mask, shift_mean=False)[0, 1].item() == pytest.approx(2 + 0.5**0.5)
    with pytest.raises(InvalidField, match="needs two"):
        # One value has no unbiased variance: the denominator n - 1 would be 0.
        masked_variance(values, torch.tensor([[1.0, 0.0, 0.0]]))


def test_last_cells_are_those_of_the_mask() -> None:
    # The second row has an observation in its middle: its last cell is not its length minus one.
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]])
    assert last_cells(mask).tolist() == [1, 2, 3]
    assert at_last(torch.tensor([5.0, 6.0, 7.0]), mask).tolist() == [[0, 5, 0, 0], [0, 0, 6, 0], [0, 0, 0, 7]]
    assert reverse_cumsum(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [[6.0, 5.0, 3.0]]
    with pytest.raises(InvalidField, match="row 1"):
        last_cells(torch.tensor([[1, 0], [0, 0]]))


def test_leave_one_out_by_hand() -> None:
    # A right one among r = (1, 0, 0, 1): 1 - (0 + 0 + 1) / 3 = 2/3; a wrong one: 0 - (1 + 0 + 1) / 3 = -2/3.
    advantages = rloo_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0]]))
    assert advantages[0].tolist() == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])
    with pytest.raises(InvalidField, match="groups of one"):
        rloo_advantages(torch.tensor([[1.0]]))


@given(st.lists(st.floats(-5, 5, width=32), min_size=4, max_size=4), st.floats(-3, 3, width=32))
def test_a_constant_changes_no_leave_one_out_advantage(rewards: list[float], shift: float) -> None:
    # The baseline of a row is the mean of the others, which a constant moves as much as the row itself.
    plain, shifted = (rloo_advantages(torch.tensor([rewards]) + add) for add in (0.0, shift))
    assert torch.allclose(plain, shifted, atol=1e-4)
    assert plain.sum().item() == pytest.approx(0.0, abs=1e-4)


def test_gae_by_hand() -> None:
    """gamma 0.5, lam 0.5: A2 = 1 - 0.2 = 0.8; A1 = 0.5 * 0.2 - 0.4 + 0.25 * 0.8 = -0.1; A0 = 0.5 * 0.4 - 0.6 - 0.025."""
    rewards, values = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.6, 0.4, 0.2]])
    mask = torch.ones(1, 3)
    advantages, returns = gae(rewards, values, mask, gamma=0.5, lam=0.5)
    raw = torch.tensor([[-0.425, -0.1, 0.8]])
    assert torch.allclose(returns, raw + values, atol=1e-6)
    assert torch.allclose(advantages, whiten(raw, mask), atol=1e-5)


def test_gae_with_gamma_and_lam_of_one_is_the_return_minus_the_value() -> None:
    torch.manual_seed(0)
    rewards, values, mask = torch.randn(3, 6), torch.randn(3, 6), torch.ones(3, 6)
    # With gamma = lam = 1 the temporal differences telescope: what is left is the sum of the rewards to come.
    _, returns = gae(rewards, values, mask)
    assert torch.allclose(returns, reverse_cumsum(rewards), atol=1e-5)


def test_gae_steps_over_observations() -> None:
    """The same tokens with an observation between them have the same advantages."""
    rewards, values = torch.tensor([[0.1, 0.0, 1.0]]), torch.tensor([[0.5, 0.3, 0.1]])
    dense, _ = gae(rewards, values, torch.ones(1, 3), gamma=0.9, lam=0.8)
    # 9 and NAN stand where no token was sampled: a critic gives some value there, and it must not be read.
    spread = torch.tensor([[0.1, 0.0, 0.0, 0.0, 1.0, 0.0]]), torch.tensor([[0.5, 0.3, 9.0, NAN, 0.1, NAN]])
    mask = torch.tensor([[1.0, 1.0, 0.0, 0.0, 1.0, 0.0]])
    sparse, _ = gae(*spread, mask, gamma=0.9, lam=0.8)
    assert torch.allclose(sparse[mask.bool()], dense[0], atol=1e-5)
    assert sparse[~mask.bool()].abs().max() == 0
    # A reward on an observation belongs to no token that could learn from it.
    with pytest.raises(InvalidField, match="token 2"):
        gae(torch.tensor([[0.0, 0.0, 1.0]]), torch.zeros(1, 3), torch.tensor([[1.0, 1.0, 0.0]]))


def test_an_advantage_is_that_of_every_token_of_its_row() -> None:
    small = torch.tensor([[0.0, 1.0]])
    assert broadcast(small, torch.tensor([[1.0, 0.0], [1.0, 1.0]])).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_the_punishment_of_length_by_hand() -> None:
    """Of at most 20 tokens with a ramp of 8: nothing up to 12, half way at 16, all at 20 and beyond."""
    found = overlong_penalty(torch.tensor([3, 12, 13, 16, 20, 99]), 20, 8)
    assert found.tolist() == pytest.approx([0.0, 0.0, -0.125, -0.5, -1.0, -1.0])
    for buffer in (0, 21):
        with pytest.raises(InvalidField, match="buffer"):
            overlong_penalty(torch.tensor([3]), 20, buffer)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("k1", 0.5), ("abs", 0.5), ("k2", 0.125), ("k3", 0.1065306597), ("k1+", 0.5), ("k3+", 0.1065306597)],
)
def test_kl_estimators_by_hand(kind: str, expected: float) -> None:
    # The log-ratio is l - l0 = -1 - (-1.5) = 0.5: k1 is 0.5, k2 is 0.5²/2 and k3 is e^-0.5 + 0.5 - 1 = 0.1065.
    log_probs = torch.tensor([-1.0], requires_grad=True)
    value = kl_terms(log_probs, torch.tensor([-1.5]), kind)  # type: ignore[arg-type]
    assert value.item() == pytest.approx(expected, rel=1e-5)
    value.sum().backward()  # type: ignore[no-untyped-call]
    # k3's slope is 1 - e^-0.5 = 0.3935; the kinds with a plus take k2's gradient in place of their own.
    slope = {"k1": 1.0, "abs": 1.0, "k3": 0.3934693403}.get(kind, 0.5)  # k2's gradient is l - l0
    assert log_probs.grad is not None
    assert log_probs.grad.item() == pytest.approx(slope, rel=1e-5)


def test_k3_is_clamped_and_an_unknown_kind_is_named() -> None:
    # e^100 would overflow; verl clamps at 10 too.
    assert kl_terms(torch.tensor([-100.0]), torch.tensor([0.0]), "k3").item() == 10.0
    with pytest.raises(InvalidField, match="full"):
        kl_terms(torch.zeros(1), torch.zeros(1), "full")  # type: ignore[arg-type]


def test_the_penalty_comes_off_the_rewards_of_the_mask() -> None:
    scores, log_probs = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[-1.0, -1.0, NAN]])
    rewards, measured = subtract_kl(
        scores, log_probs, torch.tensor([[-1.2, -1.4, NAN]]), torch.tensor([[1.0, 1.0, 0.0]]), 0.5
    )
    # 1 - 0.5 · 0.4 = 0.8 and 0 - 0.5 · 0.2 = -0.1; the third token is off the mask.
    assert rewards[0].tolist() == pytest.approx([-0.1, 0.8, 0.0])
    assert measured == pytest.approx(0.3)


def test_controllers() -> None:
    fixed, adaptive = FixedKLController(0.2), AdaptiveKLController(0.2, target=0.1, horizon=1000)
    for controller in (fixed, adaptive):
        controller.update(0.5, rows=100)  # far above the target: the error is clipped at 0.2
    # Clipped at 0.2, the error moves the coefficient by 0.2 · 100 rows / 1000 = 2 %.
    assert (fixed.value, adaptive.value) == (0.2, pytest.approx(0.2 * 1.02))
    adaptive.update(0.095, rows=100)
    # 0.095 of 0.1 is an error of -5 %, within the clip: -0.05 · 100 / 1000.
    assert adaptive.value == pytest.approx(0.2 * 1.02 * (1 - 0.05 * 0.1))
    with pytest.raises(InvalidField, match="horizon"):
        AdaptiveKLController(0.2, horizon=0)
