"""Losses and what is measured beside them. Shapes: B rows, S positions; masks are 1 on trained tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

RATIO_CLAMP = 20.0
KL_CLAMP = 10.0


class PolicyLoss(NamedTuple):
    """``loss`` is a scalar with gradient; the rest are scalars without."""

    loss: Tensor
    clip_fraction: Tensor
    approx_kl: Tensor


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    denominator: float,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 0.0,
) -> PolicyLoss:
    """PPO's clipped objective per token: max(-A r, -A clip(r, 1 - low, 1 + high)), r = exp(l - l_old).

    All tensors [B, S] float, ``mask`` 0 or 1. The sum over the mask is divided by ``denominator``, the number
    of trained tokens of the whole batch, so that any split into micro-batches has the same gradient. The
    log-ratio is clamped to ±20. ``dual_clip`` c > 1 bounds the loss of negative advantages by -A c (arXiv
    1912.09729); 0 switches it off. Source: arXiv 1707.06347; clip-higher: arXiv 2503.14476.
    """
    # Off the mask both sides are set to 0: whatever stands there adds nothing, also no NaN.
    kept = mask.bool()
    difference = torch.where(kept, log_probs - old_log_probs, 0.0).clamp(-RATIO_CLAMP, RATIO_CLAMP)
    ratio = difference.exp()
    weights = torch.where(kept, advantages, 0.0)
    plain, clipped = -weights * ratio, -weights * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    losses = torch.maximum(plain, clipped)
    if dual_clip:
        losses = torch.where(weights < 0, torch.minimum(losses, -weights * dual_clip), losses)
    loss = (losses * mask).sum() / denominator
    with torch.no_grad():
        count = mask.sum().clamp(min=1)
        clip_fraction = ((clipped > plain) * mask).sum() / count
        approx_kl = (-difference * mask).sum() / count
    return PolicyLoss(loss, clip_fraction, approx_kl)


def kl_k3(log_probs: Tensor, reference_log_probs: Tensor, mask: Tensor, *, denominator: float) -> Tensor:
    """The k3 estimate of KL(policy || reference): exp(d) - d - 1, d = l_ref - l, clamped as peers do.

    Tensors [B, S]; a scalar with gradient: the sum over the mask divided by ``denominator``. d is clamped
    to ±20, each term to ±10. Source: http://joschu.net/blog/kl-approx.html.
    """
    difference = torch.where(mask.bool(), reference_log_probs - log_probs, 0.0).clamp(-RATIO_CLAMP, RATIO_CLAMP)
    terms = (difference.exp() - difference - 1.0).clamp(-KL_CLAMP, KL_CLAMP)
    return (terms * mask).sum() / denominator


def token_log_probs(logits: Tensor, input_ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of each token given those before it, and the entropy of its distribution.

    ``logits`` [B, S, V] float, ``input_ids`` [B, S] int64; gives two [B, S] float32, position 0 being 0: the
    token at t is predicted by the logits at t - 1. Logits are divided by ``temperature`` first, as in sampling.
    """
    scaled = torch.log_softmax(logits[:, :-1].to(torch.float32) / temperature, dim=-1)
    chosen = scaled.gather(-1, input_ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    entropy = -(scaled.exp() * scaled).sum(-1)
    return torch.nn.functional.pad(chosen, (1, 0)), torch.nn.functional.pad(entropy, (1, 0))
