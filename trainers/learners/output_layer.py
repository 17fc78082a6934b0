"""Log-probabilities and entropies from hidden states, without materialising the logits of all tokens.

Shapes: N tokens, H width, V vocabulary. With z = h W^T / temperature, log p(y) = z_y - logsumexp(z) and the entropy is
logsumexp(z) - sum_j p_j z_j. The backward pass recomputes each chunk's logits and uses

    d log p(y) / dz_j = [j = y] - p_j        d entropy / dz_j = -p_j (log p_j + entropy)

so that peak memory is ``CHUNK_CELLS`` logits, independent of the batch, at the cost of one more product with W.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK_CELLS = 1 << 25
"""Maximum number of logits held at once: 128 MiB of float32."""


class TokenScores(NamedTuple):
    """``log_probs`` and ``entropy`` [N], with gradient; entropy is 0 unless requested."""

    log_probs: Tensor
    entropy: Tensor


def token_scores(
    hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float, *, entropy: bool = False
) -> TokenScores:
    """Compute the scores of ``targets`` [N] int64 given ``hidden`` [N, H] and the output layer's ``weight`` [V, H].

    The product is computed in the type of ``hidden``, all else in float32 (float64 stays float64).
    """
    return TokenScores(*_TokenScores.apply(hidden, weight, targets, temperature, entropy))  # type: ignore[no-untyped-call]


class _TokenScores(torch.autograd.Function):
    """Chunked forward and backward of the module's two formulas."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: float, entropy: bool
    ) -> tuple[Tensor, Tensor]:
        # A softmax over tens of thousands of words in bfloat16 loses the small probabilities that exploration lives on.
        exact = torch.promote_types(hidden.dtype, torch.float32)
        chosen, spread = (torch.zeros(len(hidden), dtype=exact, device=hidden.device) for _ in range(2))
        size = chunk_rows(weight)
        only: Tensor | None = None
        for start in range(0, len(hidden), size):
            rows = slice(start, start + size)
            logits = scaled_logits(hidden[rows], weight, temperature)
            # log_softmax subtracts the maximum first: exp of a raw logit above 88 overflows in float32.
            logs = torch.log_softmax(logits, dim=-1)
            chosen[rows] = logs.gather(-1, targets[rows].unsqueeze(-1)).squeeze(-1)
            if entropy:
                # In place: a chunk's logits may exist several times over otherwise, and CHUNK_CELLS counts them once.
                spread[rows] = -logs.mul_(torch.softmax(logits, dim=-1)).sum(dim=-1)
            only = logits if len(hidden) <= size else None
        # One part fits the bound as it is: no second product for it.
        kept = only if only is not None and any(ctx.needs_input_grad) else hidden.new_zeros(0)
        # Inputs and one number per token, not the logits: those are computed again in the backward pass.
        ctx.save_for_backward(hidden, weight, targets, spread, kept)
        ctx.temperature, ctx.entropy = temperature, entropy
        return chosen, spread

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, spread, kept = ctx.saved_tensors
        of_chosen, of_spread = gradients
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        to_hidden = torch.zeros_like(hidden) if wants_hidden else None
        to_weight: Tensor | None = None
        size = chunk_rows(weight)
        for start in range(0, len(hidden), size):
            rows = slice(start, start + size)
            logits = kept if kept.numel() else scaled_logits(hidden[rows], weight, ctx.temperature)
            grads = probabilities_gradient(
                logits, of_chosen[rows], of_spread[rows] if ctx.entropy else None, spread[rows]
            )
            # The [j = y] of the formula: the chosen token's own share.
            grads.scatter_add_(-1, targets[rows].unsqueeze(-1), of_chosen[rows].unsqueeze(-1).to(grads.dtype))
            # Chain rule of the division by the temperature; then the products run in the type of the forward pass.
            grads = grads.div_(ctx.temperature).to(hidden.dtype)
            if to_hidden is not None:
                to_hidden[rows] = grads @ weight.to(hidden.dtype)
            if wants_weight:
                to_weight = add_product(to_weight, grads.t(), hidden[rows], weight)
        if wants_weight and to_weight is None:
            to_weight = torch.zeros_like(weight)
        return to_hidden, to_weight, None, None, None


def add_product(into: Tensor | None, left: Tensor, right: Tensor, like: Tensor) -> Tensor:
    """Return ``into`` with the product added in place; without ``into`` the product alone, in the type of ``like``."""
    if into is None:
        return (left @ right).to(like.dtype)
    # addmm_ adds the product without a temporary as large as the weight, but takes one type only: under autocast the
    # weight is float32 and the gradient bfloat16.
    return into.addmm_(left, right) if into.dtype == left.dtype else into.add_(left @ right)


def chunk_rows(weight: Tensor) -> int:
    """Return the number of tokens per chunk."""
    # At least one token, also for a vocabulary above the bound.
    return max(1, CHUNK_CELLS // len(weight))


def scaled_logits(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    """Return logits [n, V] divided by the temperature, in float32 or float64."""
    logits = (hidden @ weight.to(hidden.dtype).t()).to(torch.promote_types(hidden.dtype, torch.float32))
    return logits if temperature == 1.0 else logits.div_(temperature)


def probabilities_gradient(logits: Tensor, of_chosen: Tensor, of_spread: Tensor | None, spread: Tensor) -> Tensor:
    """Return the softmax part of the logits' gradient: -p (g + g_entropy (log p + entropy)), [n, V]."""
    shares = torch.softmax(logits, dim=-1)
    if of_spread is None:
        return shares.mul_(-of_chosen.unsqueeze(-1))
    logs = torch.log_softmax(logits, dim=-1)
    weights = logs.add_(spread.unsqueeze(-1)).mul_(of_spread.unsqueeze(-1)).add_(of_chosen.unsqueeze(-1))
    return shares.mul_(weights.neg_())
