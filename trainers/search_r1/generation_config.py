"""Settings of Search-R1's rollout loop, and the interface of its rollout worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fathom.core.errors import InvalidField
from fathom.domain.chat.tags import INVALID_ACTION
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig
from fathom.trainers.rollouts.requests import read_text

LENGTHS = ("max_turns", "max_start_length", "max_prompt_length", "max_response_length", "max_obs_length")


@dataclass
class GenerationConfig:
    """Settings of the loop; lengths are in tokens, ``max_turns`` in turns, ``search_timeout_s`` in seconds.

    Raises ``InvalidField`` naming a length or count below 1, or a timeout that is not positive.
    """

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
    invalid_action: str = INVALID_ACTION
    """Text that the model is told after one without an action."""

    def __post_init__(self) -> None:
        for name in (*LENGTHS, "num_gpus", "topk"):
            if getattr(self, name) < 1:
                raise InvalidField(name, f"is {getattr(self, name)}, must be at least 1")
        if self.search_timeout_s <= 0:
            raise InvalidField("search_timeout_s", "must be above 0")

    @classmethod
    def from_config(cls, config: TrainConfig) -> GenerationConfig:
        """Build the settings from the trainer's, with the original's mapping."""
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
            invalid_action=read_text("rollout.invalid_action_file", rollout.invalid_action_file) or INVALID_ACTION,
        )


class RolloutWorker(Protocol):
    """Interface of a worker that generates one turn for every row."""

    def generate_sequences(self, data: DataProto) -> DataProto:
        """Generate ``responses`` [B, T] from left-padded ``input_ids``, ``attention_mask``, ``position_ids`` [B, P].

        Also returns ``response_mask`` [B, T], 1 on sampled tokens including eos, and ``rollout_log_probs`` when they
        are known. ``meta_info`` holds the sampling parameters.
        """
        ...
