"""Search-R1's own loop as a rollout source of the trainer; production's is ``trainers.rollouts``, through planner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fathom.errors import InvalidField
from trainers.data_proto import DataProto
from trainers.search_r1.generation import LLMGenerationManager
from trainers.search_r1.generation_config import GenerationConfig
from trainers.search_r1.sampler import ModelSampler
from trainers.search_r1.statistics import rollout_metrics
from trainers.search_r1.tokens import Tokens

KEPT = ("uid", "data_source", "reward_model", "extra_info")


class SearchR1Rollouts:
    """Episodes of ``LLMGenerationManager`` with a sampler in this process: a barrier per step, nothing ahead."""

    ahead = 0
    manager_class = LLMGenerationManager

    def __init__(self, sampler: ModelSampler, tokenizer: Any, config: GenerationConfig) -> None:
        self.sampler, self.tokenizer, self.config = sampler, tokenizer, config
        self.version = 0

    def pending(self) -> list[str]:
        """Nothing ever is."""
        return []

    def submit(self, prompts: DataProto) -> None:
        raise InvalidField("ahead", "is 0: this source samples when it is asked")

    def generate(self, prompts: DataProto) -> DataProto:
        """``n`` episodes per prompt, ungraded; fields as ``RolloutSource.generate`` says."""
        meta = prompts.meta_info
        rows = self.tokenised(prompts).repeat(int(meta["n"]))
        manager = self.manager_class(self.tokenizer, self.sampler, self.config, bool(meta["validate"]))
        episodes = manager.run_llm_loop(rows, rows.tensor("input_ids"))
        metrics = rollout_metrics(episodes) | {"env/failed_searches": float(manager.search_failures)}
        arrays = {name: rows.non_tensor_batch[name] for name in KEPT if name in rows}
        kept = {name: value for name, value in episodes.batch.items() if name != "responses_with_info_mask"}
        return DataProto(kept, arrays, meta | {"metrics": metrics})

    def tokenised(self, prompts: DataProto) -> DataProto:
        """With left-padded ``input_ids`` and ``attention_mask`` [B, P], of the chat where the data set gave none."""
        if "input_ids" in prompts:
            return prompts
        name = "raw_prompt" if "raw_prompt" in prompts else "prompt"
        rows = [
            self.tokenizer.encode(
                self.tokenizer.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=True),
                add_special_tokens=False,
            )
            for chat in prompts.array(name)
        ]
        tokens = Tokens.ragged(rows, int(self.tokenizer.pad_token_id), left=True)
        return prompts.with_tensors(input_ids=tokens.ids, attention_mask=tokens.mask)

    def publish(self, write: Callable[[Path], None]) -> int:
        """The sampler takes the weights."""
        self.sampler.load(write)
        self.version += 1
        return self.version

    def close(self) -> None:
        """Nothing is under way between calls."""
