"""A policy's optimiser step: tokens per second against TRL's GRPOTrainer on the same rows, and the memory of logits.

A random model of SmolLM2's width and vocabulary with four of its layers, on one thread; rows as rollouts are:
prompts and responses of many lengths. TRL's loss, gradient and AdamW step are driven on prepared rows, without its
generation. Both sides clip the ratio with the same bounds and divide by all tokens of the batch.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from trainers.config import load_config
from trainers.data_proto import DataProto
from trainers.learners.actor import Actor

ROWS, PROMPT, RESPONSE, ROUNDS, VOCABULARY, LAYERS = 8, 32, 64, 3, 49_152, 4
Side = tuple[torch.optim.Optimizer, Callable[[], object]]


async def run() -> None:
    """Needs torch and transformers, and TRL for the baseline (``pip install --no-deps trl datasets dill``)."""
    await asyncio.to_thread(compare)


def compare() -> None:
    torch.set_num_threads(1)
    data = rows()
    tokens = int(data.tensor("attention_mask").sum())
    sides: dict[str, Side] = {}
    if importlib.util.find_spec("trl") is None:
        print("TRL is not installed: no baseline")
    else:
        sides["TRL GRPOTrainer, one pass (entropy)"] = trl_step(data)
    sides["Fathom, one pass, entropy in the loss"] = fathom_step(data, "actor.entropy_coeff=0.001")
    sides["Fathom, one pass"] = fathom_step(data)
    by_tokens = ("actor.use_dynamic_bsz=true", f"actor.ppo_max_token_len_per_gpu={3 * (PROMPT + RESPONSE)}")
    sides["Fathom, passes by tokens"] = fathom_step(data, *by_tokens)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    # The first step also shows that it is the same one: gradients, clipped, as the optimisers get them.
    gradients = {name: gradient(*side) for name, side in sides.items()}
    first = next(iter(gradients.values()))
    for _ in range(ROUNDS):  # in turn, so that other work on the machine hits all alike
        for name, (_, step) in sides.items():
            started = time.process_time()
            step()
            taken[name].append(time.process_time() - started)
    cells = data.tensor("attention_mask").numel()
    print(f"{ROWS} rows, {tokens} tokens ({1 - tokens / cells:.0%} of the rectangle is padding), seconds of one core")
    print(f"{LAYERS} layers, {torch.get_num_threads()} thread; gradients are compared with the first line's")
    print(f"{'':<42}{'median':>10}{'tokens/s':>10}{'ratio':>8}{'difference':>12}{'of':>9}")
    baseline = statistics.median(next(iter(taken.values())))
    for name, values in taken.items():
        median = statistics.median(values)
        apart = float((gradients[name] - first).abs().max())
        print(
            f"{name:<42}{median:>8.2f} s{tokens / median:>10.0f}{baseline / median:>8.2f}"
            f"{apart:>12.1e}{float(first.abs().max()):>9.1e}"
        )


def gradient(optimizer: torch.optim.Optimizer, step: Callable[[], object]) -> torch.Tensor:
    """One step's gradient of the first parameter, the embedding, which is the output layer too."""
    seen: list[torch.Tensor] = []
    hook = optimizer.register_step_pre_hook(
        lambda used, *_: seen.append(used.param_groups[0]["params"][0].grad.clone())
    )
    step()
    hook.remove()
    return seen[0]


def network() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1_536, num_hidden_layers=LAYERS, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2_048, tie_word_embeddings=True, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(shape).train()


def rows() -> DataProto:
    """Groups of four; lengths spread evenly, a quarter of each response being observations."""
    generator = torch.Generator().manual_seed(1)
    attention = torch.zeros(ROWS, PROMPT + RESPONSE, dtype=torch.int64)
    mask = torch.zeros(ROWS, RESPONSE, dtype=torch.int64)
    for row in range(ROWS):
        prompt, response = PROMPT * (row // 4 + 1) // 2, RESPONSE * (row + 1) // ROWS
        attention[row, PROMPT - prompt : PROMPT + response] = 1
        mask[row, :response] = 1
        mask[row, response // 4 : response // 2] = 0
    ids = torch.randint(8, VOCABULARY, attention.shape, generator=generator) * attention
    advantages = torch.randn(ROWS, 1, generator=generator).expand(ROWS, RESPONSE) * mask
    tensors = {
        "prompts": ids[:, :PROMPT], "responses": ids[:, PROMPT:], "input_ids": ids, "attention_mask": attention,
        "position_ids": (attention.cumsum(1) - 1).clamp(min=0), "response_mask": mask, "advantages": advantages,
    }  # fmt: skip
    return DataProto.from_dict(tensors, {"uid": [f"g{row // 4}" for row in range(ROWS)]}, {"temperature": 1.0})


def fathom_step(data: DataProto, *overrides: str) -> Side:
    config = load_config([], ["actor.clip_ratio_c=null", "actor.optim.lr=1e-6", *overrides])
    actor = Actor(config.actor, network())
    known = data.union(actor.compute_log_prob(data).select(["old_log_probs"]))
    return actor.stepper.optimizer, lambda: actor.update_policy(known)


def trl_step(data: DataProto) -> Side:
    from trainers.tiny import build_tokenizer

    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    settings = trl.GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, per_device_train_batch_size=ROWS, num_generations=4,
        report_to=[], beta=0.0, loss_type="bnpo", gradient_checkpointing=False, max_completion_length=RESPONSE,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=network(),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a"] * ROWS}),
        processing_class=build_tokenizer(["a"]),
    )
    trainer.current_gradient_accumulation_steps = 1
    optimizer = torch.optim.AdamW(trainer.model.parameters(), lr=1e-6, weight_decay=0.0)
    attention = data.tensor("attention_mask")
    inputs = {
        "prompt_ids": data.tensor("prompts"), "prompt_mask": attention[:, :PROMPT],
        "completion_ids": data.tensor("responses"), "completion_mask": attention[:, PROMPT:],
        "tool_mask": data.tensor("response_mask"), "advantages": data.tensor("advantages"),
    }  # fmt: skip

    def step() -> None:
        trainer._compute_loss(trainer.model, inputs).backward()
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return optimizer, step
