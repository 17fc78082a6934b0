"""One token out of one row of log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fathom.ids import sha256
from fathom.protocol.messages import Sampling
from services.policy.backends.transformers.grammar import Grammar


def seed_of(sampling: Sampling, request_id: str) -> int:
    """The request's seed, or for seed 0 one of its id, so that the siblings of a group differ; 63 bits."""
    return (sampling.seed or int(sha256(request_id.encode())[:15], 16)) & 0x7FFF_FFFF_FFFF_FFFF


def generator(sampling: Sampling, request_id: str) -> torch.Generator:
    """Randomness of one request."""
    return torch.Generator().manual_seed(seed_of(sampling, request_id))


def log_probabilities(logits: torch.Tensor, temperatures: Sequence[float]) -> torch.Tensor:
    """Log-softmax of logits [rows, V] in float32, each row divided by its temperature; 0 counts as 1."""
    divisors = torch.tensor([value if value > 0 else 1.0 for value in temperatures], device=logits.device)
    return torch.log_softmax(logits.float() / divisors[:, None], dim=-1)


def sample(
    log_probs: torch.Tensor, sampling: Sampling, source: torch.Generator, grammar: Grammar | None
) -> tuple[int, float]:
    """One id from log-probabilities [V] at the sampling temperature, and its own in nats.

    The one that is returned is of the whole distribution, before a grammar, top-k and top-p cut it: what a trainer
    recomputes. Temperature 0 takes the likeliest id, with its log-probability under 1.
    """
    choice = log_probs
    if grammar is not None:
        choice = log_probs.masked_fill(~grammar.allowed(len(log_probs)), -torch.inf).log_softmax(dim=-1)
    greedy = sampling.temperature == 0
    token = int(choice.argmax()) if greedy else draw(choice, sampling.top_k, sampling.top_p, source)
    if grammar is not None:
        grammar.consume(token)
    return token, float(log_probs[token])


def draw(log_probs: torch.Tensor, top_k: int, top_p: float, source: torch.Generator) -> int:
    """Draws from the ``top_k`` likeliest ids (0: all) whose cumulated probability first reaches ``top_p``."""
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
    """An index of weights [n], in proportion to them. By the cumulated sum: ``multinomial`` takes ten times as long."""
    cumulated = weights.cumsum(0, dtype=torch.float64)
    # The first index whose sum is above the point has a weight above 0.
    point = torch.rand(1, generator=source, dtype=torch.float64) * cumulated[-1]
    return min(int(torch.searchsorted(cumulated, point, right=True)), weights.numel() - 1)
