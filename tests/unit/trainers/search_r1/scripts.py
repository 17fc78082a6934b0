"""A byte tokenizer, and a worker that says what a script tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fathom.domain.chat.tags import cut_after_action, parse_action
from fathom.trainers.batch import DataProto
from fathom.trainers.search_r1 import GenerationConfig, LLMGenerationManager
from fathom.trainers.search_r1.tokens import Tokens

SPECIAL = ("<pad>", "<eos>")


def byte_tokenizer(eos_is_pad: bool = False) -> PreTrainedTokenizerFast:
    """One token per byte, but for ">!", which is one token: a tag may end inside it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate([*SPECIAL, *alphabet, ">!"])}
    core = Tokenizer(models.BPE(words, [(">", "!")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<eos>" if eos_is_pad else "<pad>",
        eos_token="<eos>",
        clean_up_tokenization_spaces=False,
    )


def settings(**changes: Any) -> GenerationConfig:
    values: dict[str, Any] = {
        "max_turns": 2, "max_start_length": 64, "max_prompt_length": 400, "max_response_length": 64,
        "max_obs_length": 200, "num_gpus": 1, "search_url": "http://127.0.0.1:9/retrieve",
    }  # fmt: skip
    return GenerationConfig(**(values | changes))


class Script:
    """Row r says ``lines[r][k]`` in its k-th turn, then eos, until it has answered. Rows come in order, active ones
    only; what is behind them is padding to the GPUs and says what the first row says.
    """

    def __init__(self, tokenizer: Any, lines: Mapping[str, Sequence[str]], eos: bool = True) -> None:
        self.tokenizer, self.lines, self.eos = tokenizer, list(lines.values()), eos
        self.active = list(range(len(lines)))
        self.turn = 0
        self.batches: list[list[str]] = []
        self.asked: list[DataProto] = []

    def generate_sequences(self, data: DataProto) -> DataProto:
        self.asked.append(data)
        self.batches.append(
            [
                self.tokenizer.decode(ids[mask.bool()])
                for ids, mask in zip(data.tensor("input_ids"), data.tensor("attention_mask"), strict=True)
            ]
        )
        speakers = self.active + self.active[:1] * (len(data) - len(self.active))
        lines = [self.lines[row][self.turn] for row in speakers]
        self.turn += 1
        self.active = [
            row
            for row in self.active
            if parse_action(cut_after_action(self.lines[row][self.turn - 1])).kind != "answer"
        ]
        rows = [self.tokenizer.encode(line) + ([self.tokenizer.eos_token_id] if self.eos else []) for line in lines]
        found = Tokens.from_rows(rows, self.tokenizer.pad_token_id)
        log_probs = -torch.arange(1, found.width + 1).float().repeat(len(rows), 1) / 10
        return DataProto({"responses": found.ids, "response_mask": found.mask, "rollout_log_probs": log_probs})


def prompts_of(tokenizer: Any, texts: Sequence[str]) -> DataProto:
    found = Tokens.from_rows([tokenizer.encode(text) for text in texts], tokenizer.pad_token_id, left=True)
    return DataProto({"input_ids": found.ids, "attention_mask": found.mask}, meta_info={"seed": 1, "temperature": 0.7})


def manager_of(worker: Any, tokenizer: Any, search: Callable[[Sequence[str]], list[str]] | None = None, **changes: Any) -> LLMGenerationManager:  # fmt: skip
    manager = LLMGenerationManager(tokenizer, worker, settings(**changes))
    if search is not None:
        manager.batch_search = search  # type: ignore[method-assign, assignment]
    return manager


def echo(queries: Sequence[str]) -> list[str]:
    return [f"found {query}" for query in queries]


def text_of(tokenizer: Any, ids: Any, mask: Any) -> str:
    return str(tokenizer.decode(ids[mask.bool()]))
