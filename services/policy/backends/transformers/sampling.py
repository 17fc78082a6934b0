"""One token out of one row of logits."""

from __future__ import annotations

import torch

from fathom.ids import sha256
from fathom.protocol.messages import Sampling
from services.policy.backends.transformers.grammar import Grammar


def generator(sampling: Sampling, request_id: str) -> torch.Generator:
    """Randomness of one request: its seed, or for seed 0 its id, so that the siblings of a group differ."""
    seed = sampling.seed or int(sha256(request_id.encode())[:15], 16)
    return torch.Generator().manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)


def log_probabilities(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Log-softmax over the last axis in float32, logits divided by the temperature; 0 counts as 1."""
    scaled = logits.float()
    return torch.log_softmax(scaled / temperature if temperature > 0 else scaled, dim=-1)


def sample(
    logits: torch.Tensor, sampling: Sampling, source: torch.Generator, grammar: Grammar | None
) -> tuple[int, float]:
    """One id from logits [V] and its log-probability in nats.

    The log-probability is that of the whole distribution at the sampling temperature, before a grammar, top-k and
    top-p cut it: what a trainer recomputes. Temperature 0 takes the likeliest id, with its log-probability under 1.
    """
    log_probs = log_probabilities(logits, sampling.temperature)
    choice = log_probs
    if grammar is not None:
        choice = log_probs.masked_fill(~grammar.allowed(len(log_probs)), -torch.inf).log_softmax(dim=-1)
    token = int(choice.argmax()) if sampling.temperature == 0 else draw(choice, sampling.top_k, sampling.top_p, source)
    if grammar is not None:
        grammar.consume(token)
    return token, float(log_probs[token])


def draw(log_probs: torch.Tensor, top_k: int, top_p: float, source: torch.Generator) -> int:
    """Draws from the ``top_k`` likeliest ids (0: all) whose cumulated probability first reaches ``top_p``."""
    if top_k == 0 and top_p >= 1:
        return int(torch.multinomial(log_probs.exp(), 1, generator=source))
    count = min(top_k, log_probs.numel()) if top_k else log_probs.numel()
    kept, ids = log_probs.topk(count)
    probabilities = kept.exp()
    probabilities /= probabilities.sum()
    # An id stays when those before it do not reach top_p yet; the likeliest always stays.
    before = probabilities.cumsum(0) - probabilities
    probabilities[1:][before[1:] >= top_p] = 0
    return int(ids[torch.multinomial(probabilities, 1, generator=source)])
