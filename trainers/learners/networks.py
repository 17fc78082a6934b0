"""Trainable networks of a rank: a language model giving log-probabilities or values, placed over the ranks.

A network's ``forward`` contains everything that needs parameters, including the output layer, because sharded
parameters are complete only inside it (``fsdp``).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.config.learning import BatchingConfig
from fathom.trainers.learners.forward import Tokens, response_tokens, response_values
from fathom.trainers.learners.packing import find_obstacle, install_packing
from fathom.trainers.learners.ranks import fsdp
from fathom.trainers.learners.ranks.tensor import divide_layers
from fathom.trainers.learners.ranks.ulysses import Split


@dataclass(frozen=True)
class Placement:
    """Precision and sharding of a learner; the defaults are one rank on the CPU."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the forward pass; parameters, gradients and optimiser state stay float32."""
    shard: bool = False
    """Shard parameters, gradients and moments over all ranks instead of replicating them."""
    offload: bool = False
    """Keep shards in the memory of the CPU."""
    device: str = "cpu"
    """Device of the computation."""
    total_steps: int | None = None
    """Length of the learning-rate schedule, in steps."""

    @classmethod
    def of(cls, config: TrainConfig) -> Placement:
        """Build from the settings."""
        trainer = config.trainer
        return cls(
            config.model.dtype,
            trainer.strategy == "fsdp2",
            trainer.cpu_offload,
            trainer.device,
            trainer.total_training_steps,
        )

    def place(self, network: nn.Module, model: Any, size: int) -> None:
        """Divide the layers of ``model`` over ``size`` ranks, and shard ``network`` over the others, in place."""
        mesh = divide_layers(model.get_decoder() if hasattr(model, "get_decoder") else model, size)
        if self.shard:
            fsdp.shard(network, model, mesh, offload=self.offload)

    def computing(self, device: torch.device) -> AbstractContextManager[Any]:
        """Return the autocast context of a forward pass."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.dtype == "bfloat16")


class PolicyNetwork(nn.Module):
    """A causal language model whose forward returns log-probabilities of response tokens."""

    def __init__(self, language_model: Any, placement: Placement, batching: BatchingConfig | None = None) -> None:
        super().__init__()
        batching = batching or BatchingConfig()
        self.placement, self.packed = placement, choose_packing(language_model, batching)
        self.device = torch.device(placement.device)
        self.split = Split.of(batching.ulysses_sequence_parallel_size, language_model)
        self.language_model = language_model
        # Last, when all modules of the network exist: parameters added to a sharded module later would stay whole on
        # every rank.
        placement.place(self, language_model, batching.tensor_parallel_size)

    def forward(self, data: DataProto, temperature: float, entropy: bool = False, trained: bool = False) -> Tokens:
        """Compute ``fathom.trainers.learners.forward.response_tokens`` for rows on the network's device."""
        with self.placement.computing(data.tensor("input_ids").device):
            return response_tokens(
                self.language_model,
                data,
                temperature,
                entropy=entropy,
                trained=trained,
                split=self.split,
                packed=self.packed,
            )


class ValueModel(nn.Module):
    """A causal language model's trunk with a linear head initialised to 0, so that initial values are 0."""

    def __init__(
        self, language_model: Any, placement: Placement | None = None, batching: BatchingConfig | None = None
    ) -> None:
        super().__init__()
        batching = batching or BatchingConfig()
        self.placement, self.packed = placement or Placement(), choose_packing(language_model, batching)
        self.device = torch.device(self.placement.device)
        self.split = Split.of(batching.ulysses_sequence_parallel_size, language_model)
        self.trunk = language_model.get_decoder()
        # One value per token; the output layer of the language model is not used, and its gradient not computed.
        self.head = nn.Linear(language_model.config.hidden_size, 1).to(device_of(language_model))
        # From random values the first advantages would be noise as large as the rewards; from 0 they are rewards.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.placement.place(self, self.trunk, batching.tensor_parallel_size)

    def forward(self, data: DataProto) -> Tensor:
        """Return values [B, T] float32 of the state before each response token, 0 on padding."""
        with self.placement.computing(data.tensor("input_ids").device):
            return response_values(self.trunk, self.head, data, self.split, packed=self.packed)


def choose_packing(language_model: Any, batching: BatchingConfig) -> bool:
    """Return whether rows are joined without padding, and install the attention that this needs.

    Raises ``InvalidField("use_remove_padding")`` where the settings ask for it and the model does not allow it.
    """
    wanted = batching.use_remove_padding
    if wanted is None:
        wanted = batching.ulysses_sequence_parallel_size == 1 and not find_obstacle(language_model)
    if wanted:
        install_packing(language_model)
    return wanted


def device_of(module: nn.Module) -> torch.device:
    """Return the device of the module's parameters."""
    return next(module.parameters()).device
