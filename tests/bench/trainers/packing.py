"""A policy's optimiser step on rows of long-tailed lengths: padded rows in order, passes by tokens, packed rows.

Lengths are log-normal, as those of episodes are: most are short, and a few reach the limit. All ways take the same
step, which the largest difference of the gradients shows; times are of the processor, on one thread.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.forward import passes
from tests.bench.trainers.learner import Side, gradient

PROMPT, RESPONSE, VOCABULARY, GROUP, ROWS, ROUNDS = 32, 480, 4_096, 8, 48, 3
LIMIT = 1_024
"""Tokens of a pass: two rows of the greatest length."""
BY_TOKENS = ("actor.use_dynamic_bsz=true", f"actor.ppo_max_token_len_per_gpu={LIMIT}")
PADDED = "actor.use_remove_padding=false"
WAYS: dict[str, tuple[str, ...]] = {
    # As many rows as fit when all of them have the greatest length: what a fixed number must allow for.
    "padded, two rows a pass": (PADDED, "actor.ppo_micro_batch_size_per_gpu=2"),
    "padded, eight rows a pass": (PADDED, "actor.ppo_micro_batch_size_per_gpu=8"),
    "padded, passes by tokens": (PADDED, *BY_TOKENS),
    "packed, passes by tokens": (*BY_TOKENS, "actor.use_remove_padding=true"),
}


async def run() -> None:
    await asyncio.to_thread(compare)


def compare() -> None:
    torch.set_num_threads(1)
    data = rows()
    made = {name: step_of(data, *overrides) for name, overrides in WAYS.items()}
    gradients = {name: gradient(*side) for name, (side, _) in made.items()}
    taken: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(ROUNDS):  # in turn, so that other work on the machine hits all alike
        for name, ((_, step), _) in made.items():
            start = time.process_time()
            step()
            taken[name].append(time.process_time() - start)
    lengths = data.tensor("attention_mask").sum(dim=-1)
    tokens, first = int(lengths.sum()), next(iter(gradients.values()))
    print(f"{ROWS} rows, {tokens} tokens; lengths: median {int(lengths.median())}, most {int(lengths.max())}")
    base = statistics.median(next(iter(taken.values())))
    for name, (_, count) in made.items():
        cpu, apart = statistics.median(taken[name]), float((gradients[name] - first).abs().max())
        print(f"{name:<28}{count:>4} passes{cpu:>8.2f} s{tokens / cpu:>8.0f} tokens/s{base / cpu:>7.2f}{apart:>10.1e}")


def step_of(data: DataProto, *overrides: str) -> tuple[Side, int]:
    """Return an optimiser with the step to be timed, and its number of passes."""
    config = load_config([], ["actor.optim.lr=1e-6", *overrides])
    actor = Actor(config.actor, network())
    known = data.union(actor.compute_log_prob(data).select(["old_log_probs"]))
    count = len(passes(data, config.actor, is_packed=actor.network.packed))
    return (actor.stepper.optimizer, lambda: actor.update_policy(known)), count


def network() -> Any:
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=1_024, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=1_024, tie_word_embeddings=True, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(shape).train()


def rows(count: int = ROWS) -> DataProto:
    """Groups of eight with one prompt each; responses of a median of 60 tokens, cut at the limit."""
    generator = torch.Generator().manual_seed(1)
    attention = torch.zeros(count, PROMPT + RESPONSE, dtype=torch.int64)
    mask = torch.zeros(count, RESPONSE, dtype=torch.int64)
    drawn = torch.exp(torch.randn(count, generator=generator)).mul(60).long().clamp(4, RESPONSE)
    for row in range(count):
        prompt, response = 12 + 4 * (row // GROUP % 6), int(drawn[row])
        attention[row, PROMPT - prompt : PROMPT + response] = 1
        mask[row, :response] = 1
        mask[row, response // 4 : response // 2] = 0
    ids = torch.randint(8, VOCABULARY, attention.shape, generator=generator) * attention
    tensors = {
        "prompts": ids[:, :PROMPT], "responses": ids[:, PROMPT:], "input_ids": ids, "attention_mask": attention,
        "position_ids": (attention.cumsum(1) - 1).clamp(min=0), "response_mask": mask,
        "advantages": torch.randn(count, 1, generator=generator).expand(count, RESPONSE) * mask,
    }  # fmt: skip
    return DataProto.from_dict(tensors, {"uid": [f"g{row // GROUP}" for row in range(count)]}, {"temperature": 1.0})
