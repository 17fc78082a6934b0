"""Search-R1's own rollout loop as a rollout source of the trainer.

Production uses ``fathom.trainers.rollouts``, which goes through the planner service.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fathom.core.errors import InvalidField
from fathom.domain.chat.encoding import ContentEncoder
from fathom.trainers.batch import DataProto
from fathom.trainers.search_r1.generation import LLMGenerationManager
from fathom.trainers.search_r1.generation_config import GenerationConfig
from fathom.trainers.search_r1.sampler import ModelSampler
from fathom.trainers.search_r1.statistics import rollout_metrics
from fathom.trainers.search_r1.tokens import Tokens
from fathom.trainers.store_files import StoredFiles, StoredFolder, StoreFolder

PLANNERS_COLUMNS = ("history", "as_of", "conversation_id")
"""Columns of ``extra_info`` that this loop has no use for."""
KEPT = ("uid", "data_source", "reward_model", "extra_info")


class SearchR1Rollouts:
    """Episodes from ``LLMGenerationManager`` with an in-process sampler; synchronous, nothing is generated ahead."""

    ahead = 0
    manager_class = LLMGenerationManager

    def __init__(
        self, sampler: ModelSampler, tokenizer: Any, config: GenerationConfig, exchange: StoreFolder | None = None
    ) -> None:
        """Keep the parts; learners upload new weights into ``exchange``, by default a temporary folder of this disk."""
        self.sampler, self.tokenizer, self.config = sampler, tokenizer, config
        self.exchange = exchange
        self.version = 0

    def pending(self) -> list[str]:
        """Return an empty list: this source generates nothing ahead."""
        return []

    def submit(self, prompts: DataProto) -> None:
        raise InvalidField("ahead", "is 0: this source samples when it is asked")

    def generate(self, prompts: DataProto) -> DataProto:
        """Play ``n`` ungraded episodes per prompt; fields as documented at ``RolloutSource.generate``."""
        meta = prompts.meta_info
        rows = self.tokenize(prompts).repeat(int(meta["n"]))
        manager = self.manager_class(self.tokenizer, self.sampler, self.config, bool(meta["validate"]))
        episodes = manager.run_llm_loop(rows, rows.tensor("input_ids"))
        metrics = rollout_metrics(episodes) | {"env/failed_searches": float(manager.search_failures)}
        arrays = {name: rows.non_tensor_batch[name] for name in KEPT if name in rows}
        kept = {name: value for name, value in episodes.batch.items() if name != "responses_with_info_mask"}
        return DataProto(kept, arrays, meta | {"metrics": metrics})

    def tokenize(self, prompts: DataProto) -> DataProto:
        """Return the prompts with left-padded ``input_ids`` and ``attention_mask`` [B, P].

        Prompts that the data set did not tokenise are rendered with the chat template.
        """
        check_columns(prompts)
        if "input_ids" in prompts:
            return prompts
        name = "raw_prompt" if "raw_prompt" in prompts else "prompt"
        encoder = ContentEncoder(self.tokenizer)
        rows = [encoder.encode_chat(list(chat)) for chat in prompts.array(name)]
        tokens = Tokens.from_rows(rows, int(self.tokenizer.pad_token_id), left=True)
        return prompts.with_tensors(input_ids=tokens.ids, attention_mask=tokens.mask)

    def publish(
        self,
        write: Callable[[StoreFolder], StoredFiles],
        write_base: Callable[[StoreFolder], StoredFiles] | None = None,
    ) -> int:
        """Load new weights into the sampler and return the new version."""
        with TemporaryDirectory() as name:
            exchange = self.exchange or StoreFolder(Path(name).as_uri(), "weights")
            uploaded = StoredFolder(exchange.url, write(exchange))
            self.sampler.load(uploaded.fetch_all)
        self.version += 1
        return self.version

    def close(self) -> None:
        """Do nothing: no work is in flight between calls."""


def check_columns(prompts: DataProto) -> None:
    """Raise ``InvalidField`` for a row with a column that only episodes of planner have: this loop would ignore it."""
    if "extra_info" not in prompts.non_tensor_batch:
        return
    for place, extra in enumerate(prompts.array("extra_info")):
        for name in PLANNERS_COLUMNS:
            given = (extra or {}).get(name)
            if given is not None and len(given):
                why = f"row {place}: is read with rollout.source planner, and not by Search-R1's own loop"
                raise InvalidField(f"extra_info.{name}", why)
