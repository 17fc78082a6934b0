"""A real actor in this process on the tiny model: enough of ``trainers.roles.ActorGroup`` for tests of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainers import tiny
from trainers.config import TrainConfig
from trainers.data_proto import DataProto
from trainers.losses import Totals, policy_loss, token_log_probs
from trainers.roles import Metrics


class TinyActor:
    """One optimiser step per batch."""

    def __init__(self, config: TrainConfig, words: Sequence[str]) -> None:
        torch.set_num_threads(1)
        model = config.model
        self.config, self.tokenizer = config, tiny.build_tokenizer(words)
        self.model = tiny.build_model(words, model.hidden, model.layers, config.trainer.seed, model.window)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.actor.optim.lr, weight_decay=0.0)

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
        totals, sums = Totals.of(data.tensor("response_mask")), {"actor/pg_loss": 0.0, "actor/ppo_kl": 0.0}
        parts = data.split(4)
        for part in parts:
            log_probs, entropy = self.forward(part)
            mask = part.tensor("response_mask")
            result = policy_loss(
                log_probs, part.tensor("old_log_probs"), part.tensor("advantages"), mask, totals,
                clip_low=0.2, clip_high=0.28,
            )  # fmt: skip
            bonus = self.config.actor.entropy_coeff * (entropy * mask).sum() / totals.tokens
            (result.loss - bonus).backward()
            sums["actor/pg_loss"] += result.loss.item()
            sums["actor/ppo_kl"] += result.approx_kl.item() / len(parts)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return {**sums, "actor/grad_norm": float(norm)}

    def export(self, folder: Path) -> None:
        tiny.save(self.model, self.tokenizer, folder)

    def save_checkpoint(self, folder: Path) -> None:
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, folder / "actor.pt")

    def load_checkpoint(self, folder: Path) -> None:
        state = torch.load(folder / "actor.pt", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
