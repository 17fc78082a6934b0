"""Preference losses: DPO and variants. Shapes: B pairs; log-probabilities are sums over completion tokens."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, relu

from fathom.core.errors import InvalidField

Kind = Literal["sigmoid", "ipo", "hinge"]


class PreferenceLoss(NamedTuple):
    """Result of ``preference_loss``: ``loss`` is the mean over pairs, with gradient; the rest are scalars without."""

    loss: Tensor
    chosen_reward: Tensor
    rejected_reward: Tensor
    accuracy: Tensor
    margin: Tensor


def preference_loss(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    *,
    beta: float = 0.1,
    kind: Kind = "sigmoid",
    label_smoothing: float = 0.0,
    lengths: tuple[Tensor, Tensor] | None = None,
    sft_weight: float = 0.0,
) -> PreferenceLoss:
    """Compute the DPO loss: mean of -log sigmoid(beta D), with D the difference of the log-ratios to the reference.

    D = (chosen - its reference) - (rejected - its reference) in nats, inputs [B] float. ``sigmoid`` takes
    ``label_smoothing`` e in [0, 0.5): -(1 - e) logsig(beta D) - e logsig(-beta D) (arXiv 2305.18290); ``ipo``: (D - 1 /
    (2 beta))^2 with D of per-token means, which needs ``lengths`` of chosen and rejected in tokens (arXiv 2310.12036);
    ``hinge``: max(0, 1 - beta D) (arXiv 2305.10425). ``sft_weight`` adds the negative log-likelihood per token of the
    chosen sequence, averaged over sequences (RPO, arXiv 2404.19733), and needs ``lengths`` too. Rewards are beta times
    the log-ratio. Raises ``InvalidField`` for settings that are invalid or do not fit together.
    """
    if beta <= 0:
        raise InvalidField("beta", "must be above 0")
    if not 0.0 <= label_smoothing < 0.5 or (label_smoothing and kind != "sigmoid"):
        raise InvalidField("label_smoothing", "must be in [0, 0.5), and belongs to the sigmoid loss")
    if lengths is None and (kind == "ipo" or sft_weight):
        raise InvalidField("lengths", "the ipo loss and sft_weight are of means per token, and need how many there are")
    # Log-ratios to the reference are the implicit rewards: the partition function of the prompt cancels in their
    # difference.
    won, lost = chosen - reference_chosen, rejected - reference_rejected
    difference = won - lost
    if kind == "sigmoid":
        # logsigmoid rather than the logarithm of a sigmoid: the latter underflows to log 0 for a large negative
        # difference.
        terms = -(1 - label_smoothing) * logsigmoid(beta * difference)
        terms = terms - label_smoothing * logsigmoid(-beta * difference)
    elif kind == "hinge":
        terms = relu(1.0 - beta * difference)
    elif kind == "ipo" and lengths is not None:
        # A regression to a finite margin instead of a sigmoid: with deterministic preferences DPO's optimum is
        # unbounded.
        terms = (won / lengths[0] - lost / lengths[1] - 1.0 / (2.0 * beta)) ** 2
    else:
        raise InvalidField("loss_type", f"{kind!r} is not one of sigmoid, ipo, hinge")
    loss = terms.mean()
    if sft_weight and lengths is not None:
        # The likelihood of the chosen side may fall while the margin grows; this term holds it up. Per token, so that a
        # weight of 1 is of the size of the preference loss: a sum over a long answer would drown it.
        loss = loss - sft_weight * (chosen / lengths[0]).mean()
    with torch.no_grad():
        measured = (beta * won.mean(), beta * lost.mean(), (won > lost).float().mean(), beta * difference.mean())
    return PreferenceLoss(loss, *measured)


def sft_loss(log_probs: Tensor, mask: Tensor, tokens: float) -> Tensor:
    """Compute the supervised loss: -sum of ``log_probs`` [B, S] over ``mask`` / ``tokens`` of the global batch.

    Returns a scalar with gradient. Raises ``InvalidField("loss_mask")`` when no token is trained.
    """
    if tokens < 1:
        raise InvalidField("loss_mask", "marks no token")
    return -torch.where(mask.bool(), log_probs, 0.0).sum() / tokens
