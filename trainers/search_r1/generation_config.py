"""What Search-R1's rollout loop is given: its lengths, and who generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fathom.errors import InvalidField
from trainers.config import TrainConfig
from trainers.data_proto import DataProto

LENGTHS = ("max_turns", "max_start_length", "max_prompt_length", "max_response_length", "max_obs_length")


@dataclass
class GenerationConfig:
    """Lengths in tokens. Raises ``InvalidField`` naming a length, or a count, that is below 1."""

    max_turns: int
    max_start_length: int
    max_prompt_length: int
    max_response_length: int
    max_obs_length: int
    num_gpus: int
    no_think_rl: bool = False
    search_url: str | None = None
    topk: int = 3
    parity_retokenise: bool = False
    search_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        for name in (*LENGTHS, "num_gpus", "topk"):
            if getattr(self, name) < 1:
                raise InvalidField(name, f"is {getattr(self, name)}, must be at least 1")
        if self.search_timeout_s <= 0:
            raise InvalidField("search_timeout_s", "must be above 0")

    @classmethod
    def from_config(cls, config: TrainConfig) -> GenerationConfig:
        """The original's mapping from the trainer's settings."""
        rollout = config.rollout
        return cls(
            max_turns=rollout.max_turns,
            max_start_length=rollout.max_start_length,
            max_prompt_length=config.data.max_prompt_length,
            max_response_length=rollout.max_tokens,
            max_obs_length=rollout.max_obs_length,
            num_gpus=config.trainer.world_size,
            no_think_rl=config.algorithm.no_think_rl,
            search_url=config.retriever.url,
            topk=config.retriever.topk,
        )


class RolloutWorker(Protocol):
    """Who generates: one turn for every row."""

    def generate_sequences(self, data: DataProto) -> DataProto:
        """From left-padded ``input_ids``, ``attention_mask``, ``position_ids`` [B, P]: ``responses`` [B, T].

        Also ``response_mask`` [B, T], 1 on what was sampled with its eos, and ``rollout_log_probs`` where they
        are known. ``meta_info`` has the sampling parameters.
        """
        ...
