"""Continuous batching: requests join and leave the batch between tokens. Blocking; for one thread at a time.

The key-value cache is left-padded, so all rows end at the same column. A joining row is prefilled on its own, in chunks
of one per step, so that the others continue meanwhile; a cached prefix is not computed again. The cache of a leaving
row is stored for the next turn of its conversation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fathom.domain.chat.messages import FinishReason, Sampling
from fathom.services.policy.backends.text import TextStream
from fathom.services.policy.backends.transformers.cache import (
    PrefixStore,
    empty_cache,
    list_layers,
    select_rows,
    stack_caches,
)
from fathom.services.policy.backends.transformers.grammar import Grammar
from fathom.services.policy.backends.transformers.sampling import compute_log_probs, sample

# Smaller chunks use the hardware badly; larger ones make every stream pause for as long as they take.
PREFILL_TOKENS = 512
"""Prompt tokens computed per step; bounds how long rows being sampled wait for a prompt."""


@dataclass(eq=False)
class Row:
    """One request in the batch. ``left`` may be set by any thread; the row is then dropped before its next token."""

    prompt: list[int]
    sampling: Sampling
    max_new: int
    end_ids: frozenset[int]
    source: torch.Generator
    text: TextStream
    grammar: Grammar | None = None
    sampled: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    left: bool = False
    cached: int = 0
    """Prompt tokens taken from the prefix cache."""

    def take(self, log_probs: torch.Tensor) -> str:
        """Sample one id from log-probabilities [V] and return the text that it completes."""
        token, log_prob = sample(log_probs, self.sampling, self.source, self.grammar)
        self.sampled.append(token)
        self.log_probs.append(log_prob)
        # The end token is kept in the ids, because it was sampled and is trained on, but it is no text.
        if token in self.end_ids:
            self.finish = FinishReason.STOP
            return self.text.flush()
        piece = self.text.push(token)
        if self.text.has_stopped() or (self.grammar is not None and self.grammar.is_complete):
            self.finish = FinishReason.STOP
        elif len(self.sampled) >= self.max_new:
            self.finish = FinishReason.LENGTH
        return piece + self.text.flush() if self.finish else piece

    @property
    def is_finished(self) -> bool:
        return self.left or self.finish is not None


@dataclass
class Prefill:
    """A row being prefilled; the first ``done`` ids of its prompt are in the cache."""

    row: Row
    done: int
    cache: Any


class Batch:
    """All rows of one model version."""

    def __init__(self, network: Any, prefixes: PrefixStore) -> None:
        self._network, self._prefixes = network, prefixes
        self.rows: list[Row] = []
        self._joining: deque[Row | Prefill] = deque()
        self._cache: Any = empty_cache()
        self._mask = torch.zeros(0, 0, dtype=torch.long, device=network.device)
        """[rows, columns]: 1 for real tokens, 0 for padding."""

    @property
    def size(self) -> int:
        """Return the number of rows in the batch and being prefilled."""
        return len(self.rows) + len(self._joining)

    @torch.inference_mode()
    def step(self, joining: Sequence[Row]) -> list[tuple[Row, str]]:
        """Sample one token for every row; return the rows with the text that it completed."""
        self._joining.extend(joining)
        # First without rows whose callers have left, so that nothing is computed for them.
        self._keep()
        logits = [self._advance()] if self.rows else []
        logits += self._prefill()
        if not logits:
            return []
        log_probs = compute_log_probs(torch.cat(logits), [row.sampling.temperature for row in self.rows]).cpu()
        pieces = [(row, row.take(own)) for row, own in zip(self.rows, log_probs, strict=True)]
        # At once: the next turn of the conversation may be asked for as soon as this one's end is told.
        self._keep()
        return pieces

    def _advance(self) -> torch.Tensor:
        """Feed each row's last id; return the next logits [rows, V]."""
        ids = self._mask.new_tensor([[row.sampled[-1]] for row in self.rows])
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(self.rows), 1)], dim=1)
        return forward(self._network, ids, self._mask, self._cache)

    def _prefill(self) -> list[torch.Tensor]:
        """Prefill waiting prompts in order, within the budget of a step.

        Return logits [1, V] of rows that joined the batch.
        """
        room, ready, logits = PREFILL_TOKENS, [], []
        while self._joining and room > 0:
            head = self._joining[0]
            prefill = self._joining[0] = head if isinstance(head, Prefill) else self._start_prefill(head)
            row, end = prefill.row, min(prefill.done + room, len(prefill.row.prompt))
            if not row.left:
                last = self._feed(prefill, end)
                room -= end - prefill.done
                prefill.done = end
                # The budget is spent: the rest of this prompt comes in the next step, and later prompts wait behind it.
                if end < len(row.prompt):
                    break
                # Stored before the row joins: siblings of a group ask the same prompt at the same time.
                self._prefixes.put(row.prompt, list_layers(prefill.cache))
                ready.append(prefill)
                logits.append(last)
            self._joining.popleft()
        self._join(ready)
        return logits

    def _start_prefill(self, row: Row) -> Prefill:
        known, cache = self._prefixes.longest(row.prompt)
        row.cached = known
        return Prefill(row, known, cache)

    def _feed(self, prefill: Prefill, end: int) -> torch.Tensor:
        ids = self._mask.new_tensor([prefill.row.prompt[prefill.done : end]])
        return forward(self._network, ids, self._mask.new_ones(1, end), prefill.cache)

    def _join(self, ready: Sequence[Prefill]) -> None:
        if not ready:
            return
        masks = [self._mask] if self.rows else []
        masks += [self._mask.new_ones(1, len(prefill.row.prompt)) for prefill in ready]
        caches = [self._cache] if self.rows else []
        # Padding goes to the left, so that all rows have their last token in the last column and one forward pass
        # serves them.
        width = max(mask.shape[1] for mask in masks)
        self._cache = stack_caches([*caches, *(prefill.cache for prefill in ready)], width)
        self._mask = torch.cat([torch.nn.functional.pad(mask, (width - mask.shape[1], 0)) for mask in masks])
        self.rows += [prefill.row for prefill in ready]

    def _keep(self) -> None:
        """Remove finished rows, and columns that only they needed; store their caches as prefixes."""
        indices = [index for index, row in enumerate(self.rows) if not row.is_finished]
        if len(indices) == len(self.rows):
            return
        for index in set(range(len(self.rows))) - set(indices):
            self._remember(index)
        self.rows = [self.rows[index] for index in indices]
        chosen = torch.tensor(indices, dtype=torch.long, device=self._mask.device)
        mask = self._mask[chosen]
        # Columns that are padding in all remaining rows; without this a short batch would keep the width of its longest
        # row ever.
        first = int(mask.any(dim=0).int().argmax()) if indices else mask.shape[1]
        self._mask = mask[:, first:].contiguous()
        self._cache = select_rows(self._cache, chosen, first) if indices else empty_cache()

    def _remember(self, index: int) -> None:
        """Store the cache of a row: its prompt and all sampled ids but the last, which has not been fed yet."""
        row = self.rows[index]
        ids = [*row.prompt, *row.sampled[:-1]]
        layers = [
            # Cloned, because the buffers of the batch are written on and a view would keep them alive.
            (keys[index : index + 1, :, -len(ids) :].clone(), values[index : index + 1, :, -len(ids) :].clone())
            for keys, values in list_layers(self._cache)
        ]
        self._prefixes.put(ids, layers)


def forward(network: Any, ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> torch.Tensor:
    """Feed ids [rows, n], the last n columns of ``mask``; return the logits [rows, V] after the last of them."""
    # With padding on the left, a token's position is the number of real tokens before it, not its column.
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    output = network(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        # Logits of every prompt token would take vocabulary times prompt times four bytes, of which only the last row
        # is used.
        logits_to_keep=1,
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits


@torch.inference_mode()
def score(network: Any, ids: Sequence[int], temperature: float) -> list[float]:
    """Return the log-probability in nats of each id given those before it, 0.0 for the first.

    Logits are divided by ``temperature``.
    """
    cache: Any = empty_cache()
    log_probs = [0.0]
    tokens = torch.tensor([list(ids)], device=network.device)
    # In chunks with a cache: the logits of a whole window would take gigabytes.
    for start in range(0, len(ids) - 1, PREFILL_TOKENS):
        chunk = tokens[:, start : min(start + PREFILL_TOKENS, len(ids) - 1)]
        end = start + chunk.shape[1]
        positions = torch.arange(start, end, device=tokens.device)[None]
        output = network(input_ids=chunk, position_ids=positions, past_key_values=cache, use_cache=True)
        following = tokens[0, start + 1 : end + 1]
        known = compute_log_probs(output.logits[0], [temperature] * len(following))
        log_probs += known.gather(1, following[:, None])[:, 0].tolist()
    return log_probs
