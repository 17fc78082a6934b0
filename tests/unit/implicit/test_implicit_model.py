"""The implicit process reward model on a tiny network: q by hand, modes, batching, losses, clipping, resume."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.domain.process_reward.model import ImplicitRewardModel, Learning, Scoring, forward_q, log_probs
from fathom.domain.process_reward.sequences import Sequences, micro_batches, pad
from fathom.trainers.learners.tiny import build_model
from fathom.trainers.prime import prime_core_algos

WORDS = [f"w{number}" for number in range(24)]
PLAIN = Scoring(beta=1.0, norm="none", include_last_token=True)


def models(seed: int = 0) -> tuple[torch.nn.Module, torch.nn.Module]:
    """phi and a reference that differ."""
    return build_model(WORDS, 16, 1, seed), build_model(WORDS, 16, 1, seed + 1)


def batch(rows: int = 4, seed: int = 0) -> Sequences:
    """Rows of different lengths: a prompt of two to four tokens, then answers of three to eight."""
    draw = torch.Generator().manual_seed(seed)
    ids, masks = [], []
    for _ in range(rows):
        prompt, answer = (int(torch.randint(low, high, (1,), generator=draw)) for low, high in ((2, 5), (3, 9)))
        ids.append(torch.randint(8, 32, (prompt + answer,), generator=draw).tolist())
        masks.append([0] * prompt + [1] * answer)
    return pad(ids, masks)


def test_q_equals_a_token_by_token_computation() -> None:
    """For every token the whole prefix anew through both networks."""
    phi, reference = models()
    given = batch()
    q = forward_q(phi, given, reference.eval())
    for row in range(len(given)):
        for column in range(given.input_ids.shape[1]):
            if not given.mask[row, column]:
                assert q[row, column] == 0
                continue
            token = given.input_ids[row, column]
            with torch.no_grad():
                own, other = (
                    # The logits before the token: what a model that has seen only the prefix says of it.
                    torch.log_softmax(net(given.input_ids[row : row + 1, :column]).logits[0, -1], dim=-1)[token]
                    for net in (phi, reference)
                )
            assert float(q[row, column].detach()) == pytest.approx(float(own - other), abs=1e-5)


def test_gradient_flows_through_q_and_not_through_scores_or_reference() -> None:
    phi, reference = models()
    model = ImplicitRewardModel(phi, reference)
    q = forward_q(phi, batch(), reference)
    assert q.requires_grad
    # Scores train the policy, q trains the reward model: only the latter has a gradient.
    assert not model.rewards(q, batch().mask).requires_grad
    q.sum().backward()
    assert any(parameter.grad is not None for parameter in phi.parameters())
    assert all(parameter.grad is None for parameter in reference.parameters())


def test_old_log_probs_take_the_place_of_a_reference() -> None:
    phi, reference = models()
    given = batch()
    with torch.no_grad():
        known = log_probs(reference.eval(), given)
        expected = forward_q(phi, given, reference)
        assert torch.allclose(forward_q(phi, given, None, known), expected, atol=1e-6)
    lone = ImplicitRewardModel(phi, None, PLAIN)
    assert torch.allclose(lone.q(given, known), expected, atol=1e-5)
    # Without a reference somebody must bring the log-probabilities.
    with pytest.raises(InvalidField, match="ref_log_probs"):
        lone.score(given, 2)


def test_padding_on_either_side_changes_nothing() -> None:
    phi, reference = models()
    right = batch()
    # Rolled to the other side, row by row; positions must follow the attention mask.
    turned = [
        torch.stack(
            [
                torch.roll(row, int(right.input_ids.shape[1] - length))
                for row, length in zip(one, right.lengths, strict=True)
            ]
        )
        for one in (right.input_ids, right.attention_mask, right.mask)
    ]
    left = Sequences(*turned)
    model = ImplicitRewardModel(phi, reference, PLAIN)
    for mine, other, mask, turned_mask in zip(model.q(right), model.q(left), right.mask, left.mask, strict=True):
        assert torch.allclose(mine[mask.bool()], other[turned_mask.bool()], atol=1e-5)


# A row each, some rows, nearly all, and everything at once.
@pytest.mark.parametrize("max_tokens", [1, 20, 40, 10_000])
def test_batching_changes_neither_scores_nor_the_order_of_q(max_tokens: int) -> None:
    """The recipe puts only the scores back in order."""
    phi, reference = models()
    given = batch(8)
    outcome = torch.tensor([1.0, 0.0] * 4)
    whole = ImplicitRewardModel(phi, reference, learning=Learning(max_tokens=10**6)).score(given, 4, outcome)
    cut = ImplicitRewardModel(phi, reference, learning=Learning(max_tokens=max_tokens)).score(given, 4, outcome)
    assert torch.allclose(whole.rewards, cut.rewards, atol=1e-5)
    assert torch.allclose(whole.q, cut.q, atol=1e-5)
    assert cut.metrics == pytest.approx(whole.metrics, abs=1e-5)


@pytest.mark.parametrize(("lam", "expected"), [(0.0, [1.0, 2.0, 4.0]), (0.5, [3.0, 4.0, 4.0]), (1.0, [7.0, 6.0, 4.0])])
def test_direct_and_gae_mode(lam: float, expected: list[float]) -> None:
    """Suffix sums for 1, their closed form for a half, over an observation between two turns."""
    # 9 where nothing was sampled: an observation between two turns, the prompt and the padding.
    q = torch.tensor([[9.0, 1.0, 2.0, 9.0, 9.0, 4.0, 9.0]])
    mask = torch.tensor([[0, 1, 1, 0, 0, 1, 0]])
    found = prime_core_algos.implicit_rewards(q, mask, beta=1.0, lam=lam)
    assert found[mask.bool()].tolist() == expected
    assert found[~mask.bool()].tolist() == [0.0] * 4


def test_whole_granularity_pays_the_sum_at_the_end_and_ground_truth_is_reached() -> None:
    phi, reference = models()
    given, outcome = batch(), torch.tensor([1.0, 0.0, 0.0, 1.0])
    whole = ImplicitRewardModel(phi, reference, replace(PLAIN, granularity="whole")).score(given, 2)
    token = ImplicitRewardModel(phi, reference, PLAIN).score(given, 2)
    assert torch.allclose(whole.rewards.sum(-1), token.rewards.sum(-1), atol=1e-5)
    # One reward per row.
    assert (whole.rewards != 0).sum(-1).tolist() == [1] * 4
    truth = ImplicitRewardModel(phi, reference, replace(PLAIN, lam=1.0, use_ground_truth=True))
    # With lambda 1 the first token's return is the whole, which ground truth sets to the outcome.
    first = given.mask.argmax(-1, keepdim=True)
    assert torch.allclose(truth.score(given, 2, outcome).rewards.gather(-1, first).squeeze(-1), outcome, atol=1e-5)
    with pytest.raises(InvalidField, match="outcome"):
        truth.score(given, 2)


def test_norm_bounds_every_return() -> None:
    phi, reference = models()
    given = batch(8)
    scaled = ImplicitRewardModel(phi, reference, replace(PLAIN, norm="batch_norm")).score(given, 4).rewards
    # The largest return of the batch is 1 in size.
    assert float(scaled.flip(-1).cumsum(-1).abs().max()) == pytest.approx(1.0, abs=1e-4)
    plain = ImplicitRewardModel(phi, reference, PLAIN)
    assert torch.equal(plain.score(given, 4).rewards, plain.q(given))


@pytest.mark.parametrize("loss", ["ce", "dpo", "bon_acc", "bon_rm"])
def test_each_loss_falls_and_orders_the_group(loss: str) -> None:
    """And PR09's share of it: phi moves, the reference does not."""
    phi, reference = models()
    reference = copy.deepcopy(phi)
    learning = Learning(loss=loss, lr=3e-3)  # type: ignore[arg-type]
    model = ImplicitRewardModel(phi, reference, replace(PLAIN, beta=0.5), learning)
    frozen = copy.deepcopy(reference.state_dict())
    # Both groups have right and wrong ones, or nothing could be put in order.
    given, outcome = batch(8), torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    first = model.update(given, outcome, 4).metrics
    for _ in range(30):
        last = model.update(given, outcome, 4).metrics
    assert last["reward_model/dpo_loss"] < 0.7 * first["reward_model/dpo_loss"]
    # Not in order by chance already.
    assert first["reward_model/dpo_acc_before"] < 0.9
    assert model.score(given, 4, outcome).metrics["reward_model/dpo_acc"] == 1.0
    assert all(torch.equal(frozen[name], tensor) for name, tensor in reference.state_dict().items())


def test_unknown_loss_and_groups_that_do_not_fit_are_refused() -> None:
    phi, reference = models()
    with pytest.raises(InvalidField, match="loss_type"):
        ImplicitRewardModel(phi, reference, learning=Learning(loss="mse")).update(batch(), torch.ones(4), 2)  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="mask"):
        ImplicitRewardModel(phi, reference).score(batch(), 3, torch.ones(4))


@pytest.mark.parametrize(
    ("loss", "reduction"), [("ce", "mean"), ("dpo", "mean"), ("bon_rm", "sum"), ("bon_acc", "mean")]
)
def test_gradient_does_not_depend_on_the_cut_into_passes(loss: str, reduction: str) -> None:
    """A pass weighs as many rows as it has."""

    def gradient(max_tokens: int) -> tuple[float, list[Tensor]]:
        phi, reference = models()
        learning = Learning(loss=loss, bon_reduction=reduction, lr=0.0, max_tokens=max_tokens)  # type: ignore[arg-type]
        model = ImplicitRewardModel(phi, reference, learning=learning)
        found: list[Tensor] = []
        model.optimizer.register_step_pre_hook(
            lambda *_: found.extend(p.grad.clone() for p in phi.parameters() if p.grad is not None)
        )
        metrics = model.update(batch(8), torch.tensor([1.0, 0.0, 0.0, 1.0] * 2), 4).metrics
        return metrics["reward_model/dpo_loss"], found

    (loss_whole, whole), (loss_cut, cut) = gradient(10**6), gradient(1)
    assert loss_cut == pytest.approx(loss_whole, rel=1e-5)
    assert max(float((a - b).abs().max()) for a, b in zip(whole, cut, strict=True)) < 1e-5


@pytest.mark.parametrize("deciding", [0, 1])
def test_the_tool_step_that_decides_gets_credit_and_none_before_it(deciding: int) -> None:
    """Outcomes say only whether an episode was right; the process reward finds the call that made it so.

    Two turns with what a tool said between them; the token of one decides, that of the other is as often right as
    wrong. What comes after the decision may share its credit, for it is sampled knowing it; what came before may not.
    """
    right = (torch.arange(32) % 2).float()
    words = [(12 + row % 2, 20 + row // 2 % 4) for row in range(32)]
    ids = [[9, pair[deciding], 15, 16, pair[1 - deciding]] for pair in words]
    given = pad(ids, [[0, 1, 0, 0, 1]] * len(ids))
    phi, _ = models()
    learning = Learning(loss="ce", lr=1e-2)
    model = ImplicitRewardModel(phi, copy.deepcopy(phi), replace(PLAIN, beta=0.5), learning)
    for _ in range(30):
        model.update(given, right, 4)
    # One sampled token per turn: its reward is the turn's.
    credit = model.score(given, 4, right).rewards[given.mask.bool()].reshape(-1, 2)
    gap = (credit[right > 0].mean(dim=0) - credit[right == 0].mean(dim=0)).tolist()
    assert gap[deciding] > 1.0
    if deciding == 1:
        assert abs(gap[0]) < 0.1 * gap[1]


def test_gradient_is_clipped() -> None:
    phi, reference = models()
    model = ImplicitRewardModel(phi, reference, Scoring(beta=50.0), Learning(loss="bon_acc", bon_reduction="sum"))
    norms: list[float] = []
    model.optimizer.register_step_pre_hook(
        lambda *_: norms.append(
            float(torch.stack([p.grad.norm() for p in phi.parameters() if p.grad is not None]).norm())
        )
    )
    metrics = model.update(batch(8), torch.tensor([0.0, 1.0] * 4), 4).metrics
    assert metrics["reward_model/grad_norm"] > 10.0
    # The hook sees the gradient as the step does: after clipping.
    assert norms == [pytest.approx(10.0, rel=1e-3)]


def test_a_state_goes_on_exactly() -> None:
    given, outcome = batch(8), torch.tensor([0.0, 1.0] * 4)

    def fresh() -> ImplicitRewardModel:
        return ImplicitRewardModel(*models(), learning=Learning(lr=1e-3, mini_rows=4))

    # One goes on in memory, one from a copy of the other's state.
    straight, first, second = fresh(), fresh(), fresh()
    straight.update(given, outcome, 4)
    first.update(given, outcome, 4)
    second.load_state(copy.deepcopy(first.state()))
    assert second.update(given, outcome, 4).metrics == straight.update(given, outcome, 4).metrics
    assert torch.equal(second.q(given), straight.q(given))


@pytest.mark.parametrize(
    ("mask", "word"), [([1, 1, 1], "nothing predicts"), ([0, 0, 0], "no sampled token"), ([0, 1], "2 entries for 3")]
)
def test_masks_that_cannot_be_scored_are_refused(mask: list[int], word: str) -> None:
    with pytest.raises(InvalidField, match=word):
        pad([[9, 9, 9]], [mask])


def test_micro_batches_hold_every_row_once_within_the_limit() -> None:
    lengths = [5, 30, 7, 7, 2, 90, 11]
    found = micro_batches(lengths, 40)
    assert sorted(row for rows in found for row in rows) == list(range(7))
    # Padded size: rows times the longest, not the sum of lengths. A row that alone is too long goes alone.
    assert all(len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= 40 for rows in found)


def test_formulas_have_one_home() -> None:
    """The trainers' names are those of the shared modules, not copies."""
    from fathom.domain.process_reward import accuracy, losses, masked, rewards
    from fathom.trainers.objectives import masked as trainers_masked

    assert prime_core_algos.prime_norm is rewards.prime_norm
    assert prime_core_algos.compute_ce_dpo_loss_rm is losses.compute_ce_dpo_loss_rm
    assert prime_core_algos.compute_dpo_accuracy is accuracy.compute_dpo_accuracy
    assert trainers_masked.whiten is masked.whiten
