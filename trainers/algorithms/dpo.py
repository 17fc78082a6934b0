"""Direct preference optimisation on exported pairs (arXiv 2305.18290), using the loop of ``algorithms.sft``.

Log-probabilities are sums over the answer's tokens; the reference is the initial model, whose sums are computed once
per pair.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fathom.trainers.algorithms.sft import ImitationTrainer, write_result
from fathom.trainers.batch import DataProto
from fathom.trainers.config.tree import TrainConfig
from fathom.trainers.data.dataset import pad_id
from fathom.trainers.data.sequences import Preference, pair_batch, read_pairs
from fathom.trainers.interfaces import Checkpoints
from fathom.trainers.learners.forward import crop_padding
from fathom.trainers.learners.models import load_model, load_tokenizer
from fathom.trainers.learners.networks import Placement, PolicyNetwork
from fathom.trainers.objectives.preference_loss import preference_loss


@dataclass
class Preferences:
    """Objective with the loss of ``imitation.loss_type``; ``reference`` is a frozen copy of the model."""

    config: TrainConfig
    pad: int
    reference: PolicyNetwork
    known: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The reference's sums (chosen, rejected) by pair."""

    def collate(self, rows: Sequence[Preference]) -> DataProto:
        return pair_batch(rows, self.pad)

    def parts(self, network: PolicyNetwork, data: DataProto) -> list[Tensor]:
        """Return the rows of each micro-batch: whole pairs, so half as many pairs as rows fit."""
        # The loss is of a difference: both sides of a pair must be in one pass, or their graphs would have to be kept.
        size = max(1, self.config.actor.ppo_micro_batch_size_per_gpu // 2)
        pairs = len(data) // 2
        return [torch.cat([part, part + pairs]) for part in torch.arange(pairs).split(size)]

    def loss(self, network: PolicyNetwork, data: DataProto, rows: Tensor) -> tuple[Tensor, dict[str, float]]:
        part, settings = crop_padding(data[rows]), self.config.imitation
        count = len(rows) // 2
        sums, lengths = answer_sums(network, part)
        reference = self.reference_sums(part)
        found = preference_loss(
            sums[:count],
            sums[count:],
            reference[:count],
            reference[count:],
            beta=settings.beta,
            kind=settings.loss_type,
            label_smoothing=settings.label_smoothing,
            lengths=(lengths[:count], lengths[count:]),
            sft_weight=settings.sft_weight,
        )
        share = count / (len(data) // 2)
        metrics = {
            "loss": found.loss,
            "rewards/chosen": found.chosen_reward,
            "rewards/rejected": found.rejected_reward,
            "rewards/accuracy": found.accuracy,
            "rewards/margin": found.margin,
        }
        return found.loss * share, {name: float(value.detach()) * share for name, value in metrics.items()}

    @torch.no_grad()
    def reference_sums(self, part: DataProto) -> Tensor:
        """Return the reference's sums [2 b], running the network only for new pairs."""
        names = [str(name) for name in part.array("uid").tolist()]
        count = len(names) // 2
        # The reference never changes, so that one pass over the data serves all epochs; the sums are two numbers per
        # pair.
        if any(name not in self.known for name in names[:count]):
            self.reference.eval()
            sums = answer_sums(self.reference, part)[0]
            for place, name in enumerate(names[:count]):
                self.known[name] = (float(sums[place]), float(sums[place + count]))
        known = [self.known[name][int(place >= count)] for place, name in enumerate(names)]
        return torch.tensor(known, device=part.tensor("input_ids").device)

    def state(self) -> dict[str, Any]:
        return {"known": {name: list(sums) for name, sums in self.known.items()}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.known = {name: (sums[0], sums[1]) for name, sums in state["known"].items()}


class DpoTrainer(ImitationTrainer[Preference]):
    """DPO trainer built from settings, like ``SftTrainer``; the reference is the model as loaded."""

    def __init__(
        self,
        config: TrainConfig,
        log: Callable[[int, dict[str, float]], None] = lambda s, m: None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.tokenizer = load_tokenizer(config.model)
        pairs = read_pairs(config.data.train_files, config.imitation)
        held = read_pairs(config.data.val_files, config.imitation) if config.data.val_files else []
        network = load_model(config.model, config.trainer.seed).to(config.trainer.device)
        frozen = copy.deepcopy(network).eval().requires_grad_(False)
        reference = PolicyNetwork(frozen, Placement.of(config), config.actor)
        objective = Preferences(config, pad_id(self.tokenizer), reference)
        super().__init__(config, network, objective, pairs, held, log, checkpoints)

    def fit(self) -> dict[str, float]:
        """Train, then write what was learnt, as ``SftTrainer`` does."""
        metrics = super().fit()
        write_result(self.network, self.model, self.tokenizer, self.config)
        return metrics


def answer_sums(network: PolicyNetwork, data: DataProto) -> tuple[Tensor, Tensor]:
    """Return each row's answer log-probability in nats, [B] with gradient, and its number of tokens, [B]."""
    mask = data.tensor("response_mask").bool()
    log_probs = network(data, 1.0, trained=True).log_probs
    return torch.where(mask, log_probs, 0.0).sum(dim=-1), mask.sum(dim=-1).float()
