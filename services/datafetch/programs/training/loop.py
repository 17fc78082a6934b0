"""The training loop, and the figures of a reader on examples that it has not seen."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the usual name

from fathom.domain.programs.language import build, render
from fathom.services.datafetch.programs.linking import Linker
from fathom.services.datafetch.programs.reader import ProgramReader
from fathom.services.datafetch.programs.training.batches import (
    Batch,
    Batcher,
    average_words,
    split_batches,
    to_tensor,
)
from fathom.services.datafetch.programs.training.examples import Augmenter, Example
from fathom.services.datafetch.programs.training.model import ReaderModel

# The encoder knows language already; what is new learns twice as fast.
ENCODER_RATE, RATE, DECAY = 4e-4, 8e-4, 0.02
BETAS = (0.9, 0.98)
# Most steps until the full rate, and the share of it that is left at the end.
WARM_UP, LEAST_RATE = 100, 0.02
ENCODER_DROP, DROP, SMOOTHING = 0.1, 0.15, 0.05
# What pointers and links count beside the tokens.
POINTERS, LINKS = 0.5, 0.5
GRADIENT = 1.0
REPORTED = 50


@dataclass(frozen=True)
class Plan:
    """Bounds of a training, which takes at most so many epochs and minutes; ``rate`` multiplies the learning rates."""

    epochs: int = 20
    minutes: float = math.inf
    batch: int = 24
    seed: int = 0
    rate: float = 1.0


class Trainer:
    """Trains one model on examples."""

    def __init__(self, model: ReaderModel, batcher: Batcher, linker: Linker) -> None:
        self._model, self._batcher = model, batcher
        self._vectors, self._meta = to_tensor(linker.vectors.titles), to_tensor(linker.meta)

    def train(
        self, examples: Sequence[Example], augmenter: Augmenter, plan: Plan, report: Callable[[str], None]
    ) -> None:
        """Train; the same plan gives the same weights, as far as the processor adds in the same order."""
        torch.manual_seed(plan.seed)
        order, shuffled = list(examples), random.Random(plan.seed)
        steps = max(1, plan.epochs * math.ceil(len(order) / plan.batch))
        optimizer, begun, step, losses = self._make_optimizer(), time.monotonic(), 0, Counter[str]()
        self._model.train()
        for epoch in range(plan.epochs):
            shuffled.shuffle(order)
            batches = split_batches([augmenter.vary(one) for one in order], plan.batch)
            shuffled.shuffle(batches)
            for rows in batches:
                set_rates(optimizer, step, steps, plan.rate)
                batch = self._batcher.make(rows)
                if batch is not None:
                    losses.update(self._update(batch, optimizer))
                step += 1
                if step % REPORTED == 0:
                    shown = " ".join(f"{name} {value / REPORTED:.3f}" for name, value in losses.items())
                    report(f"epoch {epoch} step {step}/{steps} {shown} {time.monotonic() - begun:.0f} s")
                    losses.clear()
                if time.monotonic() - begun > plan.minutes * 60:
                    return

    def _make_optimizer(self) -> torch.optim.Optimizer:
        known = [value for name, value in self._model.named_parameters() if name.startswith("encoder.")]
        new = [value for name, value in self._model.named_parameters() if not name.startswith("encoder.")]
        groups = [{"params": known, "base": ENCODER_RATE}, {"params": new, "base": RATE}]
        return torch.optim.AdamW(groups, weight_decay=DECAY, betas=BETAS)

    def _update(self, batch: Batch, optimizer: torch.optim.Optimizer) -> Mapping[str, float]:
        with torch.autocast("cpu", torch.bfloat16):
            losses = self.compute_losses(batch)
        total = losses["tokens"] + POINTERS * (losses["starts"] + losses["ends"]) + LINKS * losses["links"]
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), GRADIENT)
        optimizer.step()
        return {name: float(value.detach()) for name, value in losses.items()}

    def compute_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of a batch by part."""
        model, is_training = self._model, self._model.training
        memory = model.read(batch.ids, batch.mask, batch.segments, ENCODER_DROP).float()
        # The words of a token are seen behind it.
        before, behind = (F.pad(one, (1, 0), value=-1)[:, :-1] for one in (batch.first, batch.last))
        quoted = average_words(memory, before, behind)
        states = model.write(memory, batch.mask, batch.given, quoted, DROP).float()
        is_token, is_quoted = batch.wanted > 0, batch.first >= 0
        smoothing = SMOOTHING if is_training else 0.0
        tokens = F.cross_entropy(
            model.out(states)[is_token].float(), batch.wanted[is_token], label_smoothing=smoothing
        )  # fmt: skip
        losses = {"tokens": tokens, **dict.fromkeys(("starts", "ends", "links"), torch.zeros(()))}
        if is_quoted.any():
            starts = model.score_starts(states, memory, batch.mask)[is_quoted].float()
            ends = model.score_ends(states, memory, batch.mask, batch.first.clamp(min=0))[is_quoted].float()
            losses["starts"] = F.cross_entropy(starts, batch.first[is_quoted])
            losses["ends"] = F.cross_entropy(ends, batch.last[is_quoted])
        if batch.mentions:
            losses["links"] = self._compute_link_loss(batch, memory, states)
        return losses

    def _compute_link_loss(self, batch: Batch, memory: Tensor, states: Tensor) -> Tensor:
        mentions = batch.mentions
        words = torch.stack(
            [torch.cat([memory[one.row, a : b + 1] for a, b in one.pieces]).mean(0) for one in mentions]
        )
        features = self._batcher.compare([one.text for one in mentions])
        chosen = states[[one.row for one in mentions], [one.at for one in mentions]]
        scores = self._model.score_links(chosen, words, self._vectors, self._meta, features).float()
        return F.cross_entropy(scores, torch.tensor([one.entry for one in mentions]))


def set_rates(optimizer: torch.optim.Optimizer, step: int, steps: int, rate: float) -> None:
    """Set the learning rates: they rise, and then fall as a cosine does."""
    warm_up = max(1, min(WARM_UP, steps // 10))
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
    for group in optimizer.param_groups:
        group["lr"] = rate * group["base"] * min(1.0, (step + 1) / warm_up) * max(LEAST_RATE, cosine)


def evaluate(reader: ProgramReader, examples: Sequence[Example]) -> Mapping[str, float]:
    """Return the shares of examples whose program is found: word for word, and with the same calls and series."""
    if not examples:
        return {}
    counts = Counter[str]()
    for example in examples:
        found = reader.read(example.texts, None)
        if found is not None:
            program = build(example.actions)
            wanted = reader.resolve(program, None)
            counts["exact"] += found.text == render(program)
            # Other words may read as the same period, and what cannot be computed has no steps.
            counts["same steps"] += (
                (found.kind, found.steps) == (wanted.kind, wanted.steps)
                and [(one.entity, one.indicator) for one in found.series]
                == [(one.entity, one.indicator) for one in wanted.series]
                and {gap.reason for gap in found.missing} == {gap.reason for gap in wanted.missing}
            )
    shares = {name: round(counts[name] / len(examples), 3) for name in ("exact", "same steps")}
    return {"questions": len(examples), **shares}
