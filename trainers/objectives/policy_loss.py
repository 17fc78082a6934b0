"""Policy, KL and value losses with their metrics. Shapes: B rows, S positions; masks are 1 on trained tokens.

Every loss takes the denominators of the *global* mini-batch (all micro-batches, all ranks), so that any split gives the
same gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fathom.core.errors import InvalidField
from fathom.trainers.objectives.kl import Kind, kl_terms
from fathom.trainers.objectives.masked import EPS, masked_mean

# Keeps exp() finite where a token has become nearly impossible; clipping removes its gradient anyway.
RATIO_CLAMP = 20.0
Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "token-sum"]
RatioLevel = Literal["token", "sequence", "sequence_token"]


@dataclass(frozen=True)
class Totals:
    """Denominators of a global mini-batch: trained ``tokens``, ``rows`` with any of them, and the ``width`` T.

    Dr. GRPO wants a constant for ``width`` (``actor.loss_scale_factor``), since T varies from batch to batch.
    """

    tokens: float
    rows: float
    width: float

    @classmethod
    def of(cls, mask: Tensor) -> Totals:
        """Compute the totals of one mini-batch from ``mask`` [B, S]; sum the fields over ranks before use."""
        kept = mask.bool()
        return cls(float(kept.sum()), float(kept.any(dim=-1).sum()), float(mask.shape[-1]))


def aggregate(terms: Tensor, mask: Tensor, totals: Totals, mode: Aggregation = "token-mean") -> Tensor:
    """Reduce ``terms`` [B, S] to a scalar; rows without a trained token do not count.

    Modes: token-mean sum/tokens; seq-mean-token-sum row sums/rows; seq-mean-token-mean row means/rows;
    seq-mean-token-sum-norm row sums/(rows * width); token-sum the sum. Raises ``InvalidField("loss_agg")`` for another
    mode.
    """
    terms = torch.where(mask.bool(), terms, 0.0)
    if mode == "token-sum":
        return terms.sum()
    if mode == "token-mean":
        # A mini-batch without a trained token divides 0 by 1, so that the step is a zero one instead of NaN.
        return terms.sum() / max(totals.tokens, 1.0)
    rows = max(totals.rows, 1.0)
    sums = terms.sum(dim=-1)
    if mode == "seq-mean-token-sum":
        return sums.sum() / rows
    if mode == "seq-mean-token-sum-norm":
        # A constant divisor, so that a long response is not favoured over a short one of equal advantage (Dr. GRPO,
        # arXiv 2503.20783).
        return sums.sum() / (rows * totals.width)
    if mode == "seq-mean-token-mean":
        # EPS serves rows without a trained token, whose sum is 0 as well; they count neither here nor in ``rows``.
        return (sums / (mask.bool().sum(dim=-1) + EPS)).sum() / rows
    raise InvalidField("loss_agg", f"{mode!r} is not known")


def log_ratios(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor, level: RatioLevel = "token") -> Tensor:
    """Compute the logarithm of the probability ratio that an objective clips, [B, S] with gradient, 0 off the mask.

    ``token``: l - l_old. ``sequence`` (GSPO, arXiv 2507.18071): log s = the mean of l - l_old over the row's
    trained tokens, the same for all of them. ``sequence_token`` (GSPO-token): sg[log s] + l - sg[l], of the same
    value, but each token's gradient is its own, so that advantages may differ within a row. Clamped to ±20.
    """
    # Off the mask both sides are set to 0: whatever stands there adds nothing, also no NaN.
    kept = mask.bool()
    found = torch.where(kept, log_probs - old_log_probs, 0.0)
    if level != "token":
        # A mean and not a sum: the variance of a product grows with the length, and with it the share that is clipped.
        mean = found.sum(dim=-1, keepdim=True) / kept.sum(dim=-1, keepdim=True).clamp(min=1)
        own = torch.where(kept, log_probs, 0.0)
        whole = mean.expand_as(found) if level == "sequence" else mean.detach() + own - own.detach()
        found = torch.where(kept, whole, 0.0)
    return found.clamp(-RATIO_CLAMP, RATIO_CLAMP)


class PolicyLoss(NamedTuple):
    """Result of ``policy_loss`` or ``cispo_loss``: ``loss`` is a scalar with gradient; the rest are scalars without."""

    loss: Tensor
    clip_fraction: Tensor
    clip_fraction_lower: Tensor
    approx_kl: Tensor


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    totals: Totals,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 0.0,
    weights: Tensor | None = None,
    mode: Aggregation = "token-mean",
    level: RatioLevel = "token",
) -> PolicyLoss:
    """Compute PPO's clipped objective per token: max(-A r, -A clip(r, 1 - low, 1 + high)), r = exp(``log_ratios``).

    All tensors [B, S] float, ``mask`` 0 or 1. ``dual_clip`` c > 1 bounds the loss of
    negative advantages by -A c (arXiv 1912.09729); 0 disables it. ``weights`` are truncated importance weights of the
    rollout's policy, without gradient. Source: arXiv 1707.06347; clip-higher: arXiv 2503.14476; another ``level`` than
    the token's: GSPO, whose sum over sequences is the ``mode`` seq-mean-token-mean. Raises
    ``InvalidField("dual_clip")`` for a bound of at most 1, which would cut positive advantages.
    """
    if dual_clip and dual_clip <= 1.0:
        raise InvalidField("dual_clip", f"must be above 1, not {dual_clip}")
    kept = mask.bool()
    ratio = log_ratios(log_probs, old_log_probs, mask, level).exp()
    scale = torch.where(kept, advantages, 0.0)
    plain, clipped = -scale * ratio, -scale * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    # The maximum of two losses is the pessimistic bound: a ratio outside the range is cut where it would gain, and
    # keeps its gradient where it would lose.
    terms = upper = torch.maximum(plain, clipped)
    # For a negative advantage the bound above has no limit: a token whose ratio has grown to e^20 would decide the
    # step.
    if dual_clip:
        terms = torch.where(scale < 0, torch.minimum(upper, -scale * dual_clip), upper)
    if weights is not None:
        # Weights correct for who sampled the token; they are constants of the estimate, not a path for the gradient.
        terms = terms * weights.detach()
    with torch.no_grad():
        lower = (upper > -scale * dual_clip) & (scale < 0) if dual_clip else torch.zeros_like(kept)
        # l_old - l estimates KL(old || new), since the tokens were sampled by the old policy.
        distance = -log_ratios(log_probs, old_log_probs, mask)
        measured = [masked_mean(part.to(terms.dtype), mask) for part in (clipped > plain, lower, distance)]
    return PolicyLoss(aggregate(terms, mask, totals, mode), *measured)


def cispo_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    totals: Totals,
    *,
    clip_low: float = 1.0,
    clip_high: float = 4.0,
    weights: Tensor | None = None,
    mode: Aggregation = "token-mean",
    level: RatioLevel = "token",
) -> PolicyLoss:
    """Compute CISPO per token: -sg[clip(r, 1 - low, 1 + high)] A l, r = exp(``log_ratios``).

    The importance weight is clipped, not the update: every token keeps the gradient of its log-probability, where PPO's
    objective drops those whose ratio has left the range. ``clip_low`` 1 sets no lower bound, as the paper does. All
    tensors [B, S]; ``weights`` as in ``policy_loss``. Source: MiniMax-M1, arXiv 2506.13585, section 3.1.
    """
    kept = mask.bool()
    ratio = log_ratios(log_probs, old_log_probs, mask, level).exp().detach()
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    terms = -clipped * torch.where(kept, advantages, 0.0) * torch.where(kept, log_probs, 0.0)
    if weights is not None:
        terms = terms * weights.detach()
    with torch.no_grad():
        distance = -log_ratios(log_probs, old_log_probs, mask)
        parts = (clipped != ratio, clipped > ratio, distance)
        measured = [masked_mean(part.to(terms.dtype), mask) for part in parts]
    return PolicyLoss(aggregate(terms, mask, totals, mode), *measured)


def kl_loss(
    log_probs: Tensor,
    reference: Tensor,
    mask: Tensor,
    totals: Totals,
    *,
    kind: Kind = "k3",
    mode: Aggregation = "token-mean",
    old_log_probs: Tensor | None = None,
) -> Tensor:
    """Compute the KL penalty against the reference (``kl_terms``) over the mask: a scalar with gradient.

    All tensors [B, S]. With ``old_log_probs``, of the policy that sampled the tokens, each term is multiplied by the
    ratio exp(l - l_old), through which the gradient flows: of k1 and k3, whose mean under the policy is the KL, value
    and gradient are then unbiased, also after the policy has moved (DeepSeek-V3.2, arXiv 2512.02556).
    """
    # Equal on both sides off the mask: no gradient comes from there, whatever stands there.
    kept = mask.bool()
    terms = kl_terms(torch.where(kept, log_probs, 0.0), torch.where(kept, reference, 0.0), kind)
    if old_log_probs is not None:
        terms = terms * log_ratios(log_probs, old_log_probs, mask).exp()
    return aggregate(terms, mask, totals, mode)


class ValueLoss(NamedTuple):
    """Result of ``value_loss``: ``loss`` is a scalar with gradient; the rest are scalars without."""

    loss: Tensor
    clip_fraction: Tensor
    explained_variance: Tensor


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    totals: Totals,
    *,
    clip: float = 0.5,
    mode: Aggregation = "token-mean",
) -> ValueLoss:
    """Compute the clipped value loss: 0.5 max((V - R)^2, (clip(V, V_old ± c) - R)^2), all tensors [B, S].

    Explained variance is 1 - var(R - V) / (var(R) + 1e-5) over the mask. Source: arXiv 1707.06347's reference
    implementation.
    """
    # Off the mask all are 0: no gradient comes from there, whatever stands there.
    values, old_values, returns = (torch.where(mask.bool(), one, 0.0) for one in (values, old_values, returns))
    bounded = torch.maximum(torch.minimum(values, old_values + clip), old_values - clip)
    plain, clipped = (values - returns) ** 2, (bounded - returns) ** 2
    # Pessimistic like the policy's: a value that moved too far towards its target gets no further gradient.
    loss = 0.5 * aggregate(torch.maximum(plain, clipped), mask, totals, mode)
    with torch.no_grad():
        fraction = masked_mean((clipped > plain).to(values.dtype), mask)
        residual, spread = variance(returns - values, mask), variance(returns, mask)
        # Batches whose returns are all equal have no variance to explain; 1e-5 keeps the share finite there.
        explained = 1.0 - residual / (spread + 1e-5)
    return ValueLoss(loss, fraction, explained)


def variance(values: Tensor, mask: Tensor) -> Tensor:
    """Return the population variance over the mask, a scalar."""
    return masked_mean((values - masked_mean(values, mask)) ** 2, mask)


def importance_weights(
    old_log_probs: Tensor,
    rollout_log_probs: Tensor,
    mask: Tensor,
    *,
    cap: float = 2.0,
    floor: float = 0.0,
    per_sequence: bool = False,
    masked: bool = False,
) -> Tensor:
    """Compute importance weights w = exp(l_old - l_rollout) within bounds, [B, S], without gradient.

    They correct for the difference between rollout engine and learner, and are 0 outside the mask. Truncated (TIS): w
    is moved to the nearer bound of [``floor``, ``cap``]. ``masked`` (MIS; with both bounds IcePop, arXiv 2510.18855):
    w outside the bounds becomes 0, so that such a token, or row, is not trained on. ``per_sequence`` uses the product
    over a row's trained tokens for all of them.
    """
    kept = mask.bool()
    # Both sides are of fixed policies: the one before the update and the one that sampled.
    difference = torch.where(kept, old_log_probs - rollout_log_probs, 0.0).detach()
    if per_sequence:
        difference = difference.sum(dim=-1, keepdim=True).expand_as(difference)
    weights = difference.clamp(-RATIO_CLAMP, RATIO_CLAMP).exp()
    if masked:
        return torch.where(kept & (weights >= floor) & (weights <= cap), weights, 0.0)
    # By default truncated from above only: large weights are what makes the variance unbounded, small ones merely
    # discount a token.
    return torch.where(kept, weights.clamp(floor, cap), 0.0)


def token_log_probs(logits: Tensor, input_ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Compute the log-probability of each token given the preceding ones, and the entropy of its distribution.

    ``logits`` [B, S, V] float, ``input_ids`` [B, S] int64; returns two [B, S] float32, 0 at position 0: the token at t
    is predicted by the logits at t - 1. Logits are divided by ``temperature`` first, as in sampling.
    """
    # float32 before the softmax: in bfloat16 a log-probability has two to three digits, and ratios of such would be
    # noise.
    scaled = torch.log_softmax(logits[:, :-1].to(torch.float32) / temperature, dim=-1)
    chosen = scaled.gather(-1, input_ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    entropy = -(scaled.exp() * scaled).sum(-1)
    return torch.nn.functional.pad(chosen, (1, 0)), torch.nn.functional.pad(entropy, (1, 0))
