"""A policy's whole step: tokens per second against TRL's GRPOTrainer on the same rows.

Random models of SmolLM2's width and vocabulary, with four of its layers and with all thirty (135 million parameters),
on one thread; rows as rollouts are: groups of one prompt each, responses of many lengths. TRL's loss, gradient and the
AdamW step of its own default are driven on prepared rows, without its generation. Both sides clip the ratio with the same bounds and divide by all tokens
of the batch. A step of Fathom's is what ``fathom train`` does by default: a forward pass for the old log-probabilities
and their entropies, which TRL's default does without, then the update; with "one
pass" the old log-probabilities are those of the update (``algorithm.old_log_probs``). ``BENCH_LAYERS=30`` measures one size alone.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.learners.actor import Actor
from fathom.trainers.objectives.mismatch import OLD_IS_FIRST_PASS

PROMPT, RESPONSE, VOCABULARY, GROUP = 32, 64, 49_152, 4
Side = tuple[torch.optim.Optimizer, Callable[[], object]]


@dataclass(frozen=True)
class Size:
    """Set how much is measured; ``more`` adds Fathom's other ways to take the step, each with a model of its own."""

    layers: int
    rows: int
    rounds: int
    more: bool


SIZES = (Size(layers=4, rows=8, rounds=3, more=True), Size(layers=30, rows=4, rounds=2, more=False))


async def run() -> None:
    """Needs torch and transformers, and TRL for the baseline (``pip install --no-deps trl datasets dill multiprocess xxhash``)."""
    wanted = os.environ.get("BENCH_LAYERS", "")
    for size in SIZES:
        if wanted and int(wanted) != size.layers:
            continue
        await asyncio.to_thread(compare, size)


def compare(size: Size) -> None:
    torch.set_num_threads(1)
    data = rows(size.rows)
    made = sides(size, data)
    # The first step also shows that it is the same one: gradients, clipped, as the optimisers get them.
    gradients = {name: gradient(*side) for name, side in made.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    for _ in range(size.rounds):  # in turn, so that other work on the machine hits all alike
        for name, (_, step) in made.items():
            cpu, wall = time.process_time(), time.perf_counter()
            step()
            taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    report(size, data, taken, gradients)


def report(
    size: Size, data: DataProto, taken: dict[str, list[tuple[float, float]]], gradients: dict[str, torch.Tensor]
) -> None:
    attention = data.tensor("attention_mask")
    tokens = int(attention.sum())
    print(
        f"{size.layers} layers, {size.rows} rows, {tokens} tokens ({1 - tokens / attention.numel():.0%} of the", end=""
    )
    print(f" rectangle is padding), {torch.get_num_threads()} thread, median of {size.rounds}")
    print("gradients (the embedding's, clipped) are compared with the first line's")
    print(
        f"{'':<36}{'CPU':>9}{'tokens/s':>10}{'ratio':>7}{'wall':>10}{'tokens/s':>10}{'ratio':>7}{'difference':>12}{'of':>9}"
    )
    first = next(iter(gradients.values()))
    base_cpu, base_wall = medians(next(iter(taken.values())))
    for name, values in taken.items():
        cpu, wall = medians(values)
        apart = float((gradients[name] - first).abs().max())
        print(
            f"{name:<36}{cpu:>7.2f} s{tokens / cpu:>10.0f}{base_cpu / cpu:>7.2f}"
            f"{wall:>8.2f} s{tokens / wall:>10.0f}{base_wall / wall:>7.2f}{apart:>12.1e}{float(first.abs().max()):>9.1e}"
        )


def medians(values: list[tuple[float, float]]) -> tuple[float, float]:
    """CPU and wall seconds."""
    return statistics.median(cpu for cpu, _ in values), statistics.median(wall for _, wall in values)


def sides(size: Size, data: DataProto) -> dict[str, Side]:
    """The baseline first."""
    made: dict[str, Side] = {}
    if importlib.util.find_spec("trl") is None:
        print("TRL is not installed: no baseline")
    else:
        made["TRL GRPOTrainer, one pass (entropy)"] = trl_step(size, data)
    # As it is by default: packed, and every row in one pass.
    made["Fathom, whole step"] = fathom_step(size, data)
    padded = "actor.use_remove_padding=false"
    made["Fathom, whole step, padded"] = fathom_step(size, data, padded)
    by_tokens = ("actor.use_dynamic_bsz=true", f"actor.ppo_max_token_len_per_gpu={3 * (PROMPT + RESPONSE)}")
    made["Fathom, whole step, by tokens"] = fathom_step(size, data, *by_tokens)
    if size.more:
        once = ("algorithm.old_log_probs=update",)
        made["Fathom, one pass"] = fathom_step(size, data, *once)
        made["Fathom, one pass, padded"] = fathom_step(size, data, *once, padded)
        made["Fathom, whole step, entropy in loss"] = fathom_step(size, data, "actor.entropy_coeff=0.001")
        made["Fathom, whole step, padded, by tokens"] = fathom_step(size, data, *by_tokens, padded)
        made["Fathom, the update alone"] = fathom_step(size, data, is_whole=False)
    return made


def gradient(optimizer: torch.optim.Optimizer, step: Callable[[], object]) -> torch.Tensor:
    """One step's gradient of the first parameter, the embedding, which is the output layer too."""
    seen: list[torch.Tensor] = []
    hook = optimizer.register_step_pre_hook(
        lambda used, *_: seen.append(used.param_groups[0]["params"][0].grad.clone())
    )
    step()
    hook.remove()
    return seen[0]


def network(layers: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1_536, num_hidden_layers=layers, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2_048, tie_word_embeddings=True, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(shape).train()


def rows(count: int) -> DataProto:
    """Groups of four with one prompt each; lengths spread evenly, a quarter of each response being observations."""
    generator = torch.Generator().manual_seed(1)
    attention = torch.zeros(count, PROMPT + RESPONSE, dtype=torch.int64)
    mask = torch.zeros(count, RESPONSE, dtype=torch.int64)
    for row in range(count):
        prompt, response = PROMPT * (row // GROUP + 1) * GROUP // count, RESPONSE * (row + 1) // count
        attention[row, PROMPT - prompt : PROMPT + response] = 1
        mask[row, :response] = 1
        mask[row, response // 4 : response // 2] = 0
    ids = torch.randint(8, VOCABULARY, attention.shape, generator=generator) * attention
    ids[:, :PROMPT] = ids[::GROUP, :PROMPT].repeat_interleave(GROUP, dim=0)
    advantages = torch.randn(count, 1, generator=generator).expand(count, RESPONSE) * mask
    tensors = {
        "prompts": ids[:, :PROMPT], "responses": ids[:, PROMPT:], "input_ids": ids, "attention_mask": attention,
        "position_ids": (attention.cumsum(1) - 1).clamp(min=0), "response_mask": mask, "advantages": advantages,
    }  # fmt: skip
    return DataProto.from_dict(tensors, {"uid": [f"g{row // GROUP}" for row in range(count)]}, {"temperature": 1.0})


def fathom_step(size: Size, data: DataProto, *overrides: str, is_whole: bool = True) -> Side:
    config = load_config([], ["actor.clip_ratio_c=null", "actor.optim.lr=1e-6", *overrides])
    actor = Actor(config.actor, network(size.layers))

    def add_old() -> DataProto:
        if config.algorithm.old_log_probs == "update":
            return data.with_meta(**{OLD_IS_FIRST_PASS: True})
        return data.union(actor.compute_log_prob(data).select(["old_log_probs"]))

    known = None if is_whole else add_old()
    return actor.stepper.optimizer, lambda: actor.update_policy(known or add_old())


def trl_step(size: Size, data: DataProto, device: str = "cpu") -> Side:
    """Return TRL's step; on a GPU with products of bfloat16 as Fathom's, by torch's own autocast."""
    from fathom.trainers.learners.tiny import build_tokenizer

    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    settings = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=device == "cpu", bf16=False, per_device_train_batch_size=size.rows, num_generations=GROUP,
        report_to=[], learning_rate=1e-6, beta=0.0, loss_type="bnpo", gradient_checkpointing=False, max_completion_length=RESPONSE,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=network(size.layers),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a"] * size.rows}),
        processing_class=build_tokenizer(["a"]),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.to(device)
    optimizer = trainer.create_optimizer()
    attention = data.tensor("attention_mask")
    held = {
        "prompt_ids": data.tensor("prompts"), "prompt_mask": attention[:, :PROMPT],
        "completion_ids": data.tensor("responses"), "completion_mask": attention[:, PROMPT:],
        "tool_mask": data.tensor("response_mask"), "advantages": data.tensor("advantages"),
    }  # fmt: skip
    inputs = {name: value.to(device) for name, value in held.items()}

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            loss = trainer._compute_loss(trainer.model, inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return optimizer, step
