"""A real actor in this process on the tiny model: enough of ``fathom.trainers.interfaces.ActorGroup`` for tests of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.interfaces import Metrics
from fathom.trainers.learners import tiny
from fathom.trainers.learners.checkpoint import Fetch, is_here
from fathom.trainers.objectives.policy_loss import Totals, token_log_probs
from fathom.trainers.objectives.terms import LossInput, LossTerm, clipped_loss
from fathom.trainers.transfers import StoreTransfer


class TinyActor(StoreTransfer):
    """One optimiser step per batch."""

    def __init__(self, config: TrainConfig, words: Sequence[str]) -> None:
        torch.set_num_threads(1)
        model = config.model
        self.config, self.tokenizer = config, tiny.build_tokenizer(words)
        self.model = tiny.build_model(words, model.hidden, model.layers, config.trainer.seed, model.window)
        self.loss, self.worker = clipped_loss(config.actor), self
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.actor.optim.lr, weight_decay=0.0)

    def use_loss(self, terms: Sequence[LossTerm]) -> None:
        self.loss = tuple(terms)

    def forward(self, data: DataProto) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies of the responses, [B, T]."""
        ids, attention = data.tensor("input_ids"), data.tensor("attention_mask")
        output: Any = self.model(input_ids=ids, attention_mask=attention, position_ids=data.tensor("position_ids"))
        found, entropy = token_log_probs(output.logits, ids, self.config.rollout.temperature)
        width = data.tensor("responses").shape[1]
        return found[:, -width:], entropy[:, -width:]

    @torch.no_grad()
    def compute_log_prob(self, data: DataProto) -> DataProto:
        parts = [self.forward(part) for part in data.split(4)]
        names = ("old_log_probs", "entropys")
        return DataProto({name: torch.cat([part[at] for part in parts]) for at, name in enumerate(names)})

    def update_policy(self, data: DataProto) -> Metrics:
        self.optimizer.zero_grad()
        totals, sums = Totals.of(data.tensor("response_mask")), dict[str, float]()
        for part in data.split(4):
            given = LossInput(part, *self.forward(part), totals)
            for term in self.loss:
                value, shares = term(given)
                value.backward(retain_graph=True)
                sums |= {name: sums.get(name, 0.0) + share for name, share in shares.items()}
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return {**sums, "actor/grad_norm": float(norm)}

    def export(self, folder: Path) -> None:
        tiny.save(self.model, self.tokenizer, folder)

    def save_checkpoint(self, folder: Path) -> None:
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, folder / "actor.pt")

    def load_checkpoint(self, folder: Path, fetch: Fetch = is_here) -> None:
        fetch("actor.pt")
        state = torch.load(folder / "actor.pt", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
