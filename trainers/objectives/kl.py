"""KL divergence from a reference policy: per-token estimators, and controllers of its coefficient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.config.sections import AlgorithmConfig

Kind = Literal["k1", "abs", "k2", "k3", "k1+", "k3+"]
KINDS: tuple[Kind, ...] = ("k1", "abs", "k2", "k3", "k1+", "k3+")
NAMES: dict[str, Kind] = {"kl": "k1", "mse": "k2", "low_var_kl": "k3", **{kind: kind for kind in KINDS}}
"""Estimators by settings name: verl's names, and the estimators' own."""
# exp(20) is far from a float's end; a single token beyond it would otherwise decide the whole batch. verl's values.
LOG_RATIO_CLAMP = 20.0
K3_CLAMP = 10.0
# The largest relative error that one step of the adaptive controller reacts to, as in TRL and verl.
ADAPTATION = 0.2


def kind_named(name: str) -> Kind:
    """Return the estimator of that settings name; raises ``InvalidField("kl_kind")`` for an unknown one."""
    if name not in NAMES:
        raise InvalidField("kl_kind", f"{name!r} is not one of {', '.join(NAMES)}")
    return NAMES[name]


def kl_terms(log_probs: Tensor, reference: Tensor, kind: Kind) -> Tensor:
    """Estimate KL(policy || reference) per token, in the shape of ``log_probs`` (nats, with gradient).

    With l and l0 the log-probabilities of the sampled token: k1 = l - l0; abs = |l - l0|; k2 = (l - l0)^2 / 2; k3 =
    exp(d) - d - 1 with d = l0 - l clamped to ±20, the term to ±10. With "+" the value is the estimator's and the
    gradient k2's, since the gradient of k3 is not that of the KL. Source: http://joschu.net/blog/kl-approx.html;
    straight-through form: verl. Raises ``InvalidField("kl_kind")``.
    """
    if kind not in KINDS:
        raise InvalidField("kl_kind", f"{kind!r} is not one of {', '.join(KINDS)}")
    # Sampled tokens only: no sum over the vocabulary is needed, at the price of an estimate per token.
    difference = log_probs - reference
    if kind.endswith("+"):
        # Straight-through: adding and subtracting the square leaves the value of the estimator and the gradient of k2,
        # which is an unbiased gradient of the KL; that of k1 has mean 0, and that of k3 is biased.
        square = 0.5 * difference**2
        value = kl_terms(log_probs, reference, "k1" if kind == "k1+" else "k3")
        return value.detach() + square - square.detach()
    if kind == "k1":
        return difference
    if kind == "abs":
        return difference.abs()
    if kind == "k2":
        return 0.5 * difference**2
    # The clamp also ends the gradient beyond it: one token that became nearly impossible must not decide the step.
    clamped = (-difference).clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP)
    return (clamped.exp() - clamped - 1.0).clamp(-K3_CLAMP, K3_CLAMP)


class Controller(Protocol):
    """Controller of the KL coefficient: read ``value`` for a step, then ``update`` it with the measured KL."""

    value: float

    def update(self, kl: float, rows: int) -> None: ...


@dataclass
class FixedKLController:
    """A constant coefficient."""

    value: float = 0.001

    def update(self, kl: float, rows: int) -> None:
        """Do nothing."""


@dataclass
class AdaptiveKLController:
    """Proportional controller: value *= 1 + clip(KL / target - 1, ±0.2) * rows / horizon.

    Source: arXiv 1909.08593, section 2.2.
    """

    value: float
    target: float = 0.1
    horizon: int = 10_000

    def __post_init__(self) -> None:
        """Check the settings; raises ``InvalidField`` for a target or horizon that is not positive."""
        for name in ("target", "horizon"):
            if getattr(self, name) <= 0:
                raise InvalidField(f"kl_ctrl.{name}", "must be above 0")

    def update(self, kl: float, rows: int) -> None:
        """Update the coefficient; ``kl`` is in nats per token, ``rows`` counts the batch's rows, not its tokens."""
        # Clipped, because the KL of a single batch may be many times the target, and the coefficient would overshoot.
        error = min(max(kl / self.target - 1.0, -ADAPTATION), ADAPTATION)
        # In proportion to the rows seen: the speed of adaptation does not depend on the batch size.
        self.value *= 1.0 + error * rows / self.horizon


def kl_controller(algorithm: AlgorithmConfig) -> Controller:
    """Create the controller of the KL in the reward."""
    if algorithm.kl_ctrl == "fixed":
        return FixedKLController(algorithm.kl_coef)
    return AdaptiveKLController(algorithm.kl_coef, algorithm.kl_target, int(algorithm.kl_horizon))


def subtract_kl(
    scores: Tensor, log_probs: Tensor, reference: Tensor, mask: Tensor, weight: float, kind: Kind = "k1"
) -> tuple[Tensor, float]:
    """Subtract the KL penalty from rewards: r = score - weight * kl on the mask; also return the measured KL.

    All tensors [B, T]; returns rewards [B, T] float32, 0 outside the mask, and the mean over rows of each row's mean KL
    (nats per token), the controller's input. Rows without model tokens are excluded.
    """
    kept = mask.bool()
    # A reward is data for the update: no gradient may flow through it into the policy.
    terms = torch.where(kept, kl_terms(log_probs, reference, kind), 0.0).detach()
    lengths = kept.sum(dim=-1)
    # Mean over rows of each row's mean, as in verl: a long response weighs as much as a short one in the controller's
    # input.
    measured = terms.sum(dim=-1)[lengths > 0] / lengths[lengths > 0]
    rewards = torch.where(kept, scores - weight * terms, 0.0)
    return rewards.to(torch.float32), float(measured.mean()) if measured.numel() else 0.0
