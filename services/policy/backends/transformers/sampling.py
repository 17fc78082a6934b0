"""Sampling of one token from log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fathom.core.ids import sha256
from fathom.domain.chat.messages import Sampling
from fathom.services.policy.backends.transformers.grammar import Grammar


def derive_seed(sampling: Sampling, request_id: str) -> int:
    """Return the request's seed (63 bits); seed 0 derives one from the request id."""
    # Siblings of a group have different request ids, so they differ; a retry has the same one, so it repeats.
    return (sampling.seed or int(sha256(request_id.encode())[:15], 16)) & 0x7FFF_FFFF_FFFF_FFFF


def build_generator(sampling: Sampling, request_id: str) -> torch.Generator:
    """Return the random number generator of a request."""
    return torch.Generator().manual_seed(derive_seed(sampling, request_id))


def compute_log_probs(logits: torch.Tensor, temperatures: Sequence[float]) -> torch.Tensor:
    """Return the log-softmax of logits [rows, V] in float32, each row divided by its temperature; 0 counts as 1."""
    # Greedy sampling has no distribution to report; that of temperature 1 is what a trainer can recompute.
    divisors = torch.tensor([value if value > 0 else 1.0 for value in temperatures], device=logits.device)
    return torch.log_softmax(logits.float() / divisors[:, None], dim=-1)


def sample(
    log_probs: torch.Tensor, sampling: Sampling, source: torch.Generator, grammar: Grammar | None
) -> tuple[int, float]:
    """Sample an id from log-probabilities [V] at the sampling temperature; return it with its log-probability in nats.

    Temperature 0 selects the likeliest id, with its log-probability at temperature 1.
    """
    # What is returned is the log-probability of the full distribution, before grammar, top-k and top-p: a trainer
    # recomputes it from the logits alone.
    choice = log_probs
    if grammar is not None:
        choice = log_probs.masked_fill(~grammar.mask_allowed(len(log_probs)), -torch.inf).log_softmax(dim=-1)
    greedy = sampling.temperature == 0
    token = int(choice.argmax()) if greedy else draw(choice, sampling.top_k, sampling.top_p, source)
    if grammar is not None:
        grammar.consume(token)
    return token, float(log_probs[token])


def draw(log_probs: torch.Tensor, top_k: int, top_p: float, source: torch.Generator) -> int:
    """Sample from the ``top_k`` likeliest ids (0: all), cut where their cumulative probability reaches ``top_p``."""
    if top_k == 0 and top_p >= 1:
        return pick(log_probs.exp(), source)
    count = min(top_k, log_probs.numel()) if top_k else log_probs.numel()
    kept, ids = log_probs.topk(count)
    probabilities = kept.exp()
    probabilities /= probabilities.sum()
    # An id stays when those before it do not reach top_p yet; the likeliest always stays.
    before = probabilities.cumsum(0) - probabilities
    probabilities[1:][before[1:] >= top_p] = 0
    return int(ids[pick(probabilities, source)])


def pick(weights: torch.Tensor, source: torch.Generator) -> int:
    """Sample an index in proportion to ``weights`` [n]."""
    # Inverse transform sampling: ``multinomial`` takes ten times as long.
    # In float64: over a vocabulary of 50,000 a float32 sum loses the small weights at its end.
    cumulated = weights.cumsum(0, dtype=torch.float64)
    # The first index whose sum is above the point has a weight above 0.
    point = torch.rand(1, generator=source, dtype=torch.float64) * cumulated[-1]
    return min(int(torch.searchsorted(cumulated, point, right=True)), weights.numel() - 1)
