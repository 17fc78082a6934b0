"""Test which KL losses have an unbiased gradient: means over all outcomes of a small distribution, computed in full."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fathom.core.config import ConfigError
from fathom.trainers.config import load_config
from fathom.trainers.objectives.kl import Kind
from fathom.trainers.objectives.policy_loss import Totals, kl_loss

LOGITS = torch.tensor([0.3, -0.4, 0.1, 0.9], dtype=torch.float64)
REFERENCE = torch.log_softmax(torch.tensor([0.0, 0.5, -0.2, 0.4], dtype=torch.float64), dim=0)
MOVED = torch.log_softmax(LOGITS + torch.tensor([0.2, -0.1, 0.3, 0.0], dtype=torch.float64), dim=0)


def true_gradient() -> Tensor:
    logits = LOGITS.clone().requires_grad_()
    log_probs = torch.log_softmax(logits, dim=0)
    [gradient] = torch.autograd.grad((log_probs.exp() * (log_probs - REFERENCE)).sum(), logits)
    return gradient


def mean_gradient(kind: Kind, sampler: Tensor, *, weighted: bool) -> Tensor:
    """The gradient's mean over tokens that ``sampler``, a policy in log-probabilities, has drawn."""
    logits = LOGITS.clone().requires_grad_()
    log_probs = torch.log_softmax(logits, dim=0)
    one, totals = torch.ones(1, 1), Totals(1, 1, 1)
    old = sampler.view(-1, 1, 1) if weighted else [None] * 4
    terms = [
        kl_loss(log_probs[at].view(1, 1), REFERENCE[at].view(1, 1), one, totals, kind=kind, old_log_probs=old[at])
        for at in range(4)
    ]
    [gradient] = torch.autograd.grad((sampler.exp() * torch.stack(terms)).sum(), logits)
    return gradient


@pytest.mark.parametrize(
    ("kind", "weighted", "is_unbiased"),
    [
        ("k1", False, False), ("k2", False, True), ("k3", False, False), ("k1+", False, True), ("k3+", False, True),
        ("k1", True, True), ("k3", True, True), ("k2", True, False),
    ],
)  # fmt: skip
def test_on_samples_of_the_policy_itself(kind: Kind, weighted: bool, is_unbiased: bool) -> None:
    own = torch.log_softmax(LOGITS, dim=0)
    found = mean_gradient(kind, own, weighted=weighted)
    assert torch.allclose(found, true_gradient(), atol=1e-9) is is_unbiased
    # Of k1 as it is: the mean of a score function.
    if kind == "k1" and not weighted:
        assert torch.allclose(found, torch.zeros(4, dtype=torch.float64), atol=1e-9)


@pytest.mark.parametrize(("kind", "weighted", "is_unbiased"), [("k1", True, True), ("k3", True, True), ("k2", False, False)])  # fmt: skip
def test_on_samples_of_an_older_policy(kind: Kind, weighted: bool, is_unbiased: bool) -> None:
    """Only the weighted ones stay unbiased after the policy has moved."""
    found = mean_gradient(kind, MOVED, weighted=weighted)
    assert torch.allclose(found, true_gradient(), atol=1e-9) is is_unbiased


def test_a_weight_is_for_estimators_whose_mean_is_the_kl() -> None:
    for kind in ("mse", "abs", "k1+", "k3+"):
        with pytest.raises(ConfigError, match="kl_loss_weighted belongs to"):
            load_config(overrides=["actor.kl_loss_weighted=true", f"actor.kl_loss_type={kind}"])
