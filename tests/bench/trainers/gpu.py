"""Learner, sampler and loading of weights on a GPU: tokens per second, share of the peak, memory, times of a copy.

``make bench-gpu`` runs it on a machine that has torch and transformers alone. The model is a random one of SmolLM2's
shape (135 million parameters); rows are as those of episodes are, most short and a few long. Where TRL is installed,
its step on rows of its own bench (``tests/bench/trainers/learner.py``) is measured in turn with ours.
``BENCH_GPU_DEVICE=cpu`` plays the same in miniature, which shows that it runs and measures nothing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.model import Request
from fathom.trainers.batch import DataProto
from fathom.trainers.config import load_config
from fathom.trainers.learners.actor import Actor
from fathom.trainers.learners.networks import Placement
from tests.bench.trainers import learner
from tests.bench.trainers.packing import rows
from tests.integration.policy.weights.models import tiny_model

# Products of bfloat16 per second that makers name for dense matrices, by a part of the device's name.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "A10": 125e12, "L4": 121e12}
WAYS = {"padded": ("actor.use_remove_padding=false",), "packed": ("actor.use_remove_padding=true",)}


@dataclass(frozen=True)
class Scale:
    """Set how much is measured."""

    device: str
    layers: int
    hidden: int
    head: int
    vocabulary: int
    rows: int
    pass_tokens: int
    in_flight: int
    new_tokens: int
    rounds: int
    peer_rows: int
    """Rows of the step that TRL takes, too; divisible by its groups of four."""


WHOLE = Scale(
    "cuda",
    layers=30,
    hidden=576,
    head=64,
    vocabulary=49_152,
    rows=256,
    pass_tokens=32_768,
    in_flight=64,
    new_tokens=128,
    rounds=5,
    peer_rows=64,
)
MINIATURE = Scale(
    "cpu",
    layers=1,
    hidden=48,
    head=16,
    vocabulary=4_096,
    rows=16,
    pass_tokens=1_024,
    in_flight=2,
    new_tokens=4,
    rounds=1,
    peer_rows=4,
)


async def run() -> None:
    """Needs torch and transformers, and a GPU unless ``BENCH_GPU_DEVICE`` is cpu."""
    scale = MINIATURE if os.environ.get("BENCH_GPU_DEVICE") == "cpu" else WHOLE
    if scale.device == "cuda" and not torch.cuda.is_available():
        print(f"skipped: torch {torch.__version__} sees no CUDA device")
        return
    name = torch.cuda.get_device_name() if scale.device == "cuda" else "the processor, in miniature: no figures"
    print(f"on {name}, torch {torch.__version__}, bfloat16")
    await asyncio.to_thread(learn, scale, name)
    await asyncio.to_thread(compare_with_trl, scale)
    with tempfile.TemporaryDirectory() as folder:
        versions = await asyncio.to_thread(make_versions, Path(folder), scale)
        await sample(scale, versions)


def network(scale: Scale) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = LlamaConfig(
        vocab_size=scale.vocabulary, hidden_size=scale.hidden, intermediate_size=scale.hidden * 8 // 3,
        num_hidden_layers=scale.layers, num_attention_heads=scale.hidden // scale.head,
        num_key_value_heads=scale.hidden // scale.head // 3, max_position_embeddings=2_048, tie_word_embeddings=True,
        pad_token_id=0, eos_token_id=257,
    )  # fmt: skip
    return LlamaForCausalLM(shape)


def seconds(scale: Scale, work: Callable[[], object]) -> float:
    """Return the median time of ``work``, the first of which warms up and is not counted."""
    taken = []
    for _ in range(scale.rounds + 1):
        wait_for_device(scale)
        started = time.perf_counter()
        work()
        wait_for_device(scale)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def wait_for_device(scale: Scale) -> None:
    if scale.device == "cuda":
        torch.cuda.synchronize()


def learn(scale: Scale, name: str) -> None:
    """Print a whole step of a learner: old log-probabilities where the settings need them, gradient, AdamW."""
    data = rows(scale.rows)
    tokens = int(data.tensor("attention_mask").sum())
    peak = next((value for part, value in PEAKS.items() if part in name), None)
    print(
        f"\nlearner, {scale.rows} rows, {tokens} tokens{'':<4}{'step':>10}{'tokens/s':>12}{'of the peak':>14}{'memory':>12}"
    )
    for way, overrides in WAYS.items():
        step, parameters = learner_step(scale, data, *overrides)
        forget_memory(scale)
        taken = seconds(scale, step)
        # Two operations a parameter for each token of a forward pass, four for its gradient; attention left out.
        share = f"{8 * parameters * tokens / taken / peak:.1%}" if peak else "unknown"
        print(f"{way:<34}{taken:>8.3f} s{tokens / taken:>12.0f}{share:>14}{describe_memory(scale):>12}")


def forget_memory(scale: Scale) -> None:
    """Begin to count the most memory that is held at once anew."""
    if scale.device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def describe_memory(scale: Scale) -> str:
    return f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB" if scale.device == "cuda" else "unknown"


def compare_with_trl(scale: Scale) -> None:
    """Print TRL's step and ours, padded and packed, on the same rows; whole steps, as ``fathom train`` takes them."""
    data = learner.rows(scale.peer_rows)
    tokens = int(data.tensor("attention_mask").sum())
    print(f"\nstep on {scale.peer_rows} rows, {tokens} tokens{'':<13}{'step':>10}{'tokens/s':>12}{'ratio':>8}")
    made: dict[str, Callable[[], object]] = {}
    if importlib.util.find_spec("trl") is None:
        print("TRL is not installed: no baseline")
    else:
        size = learner.Size(scale.layers, scale.peer_rows, scale.rounds, more=False)
        made["TRL GRPOTrainer, one pass"] = learner.trl_step(size, data, scale.device)[1]
    for way, overrides in WAYS.items():
        made[f"Fathom, whole step, {way}"] = learner_step(scale, data, *overrides, vocabulary=learner.VOCABULARY)[0]
    base = None
    for name, step in made.items():
        taken = seconds(scale, step)
        base = base or taken
        print(f"{name:<34}{taken:>8.3f} s{tokens / taken:>12.0f}{base / taken:>8.2f}")


def learner_step(
    scale: Scale, data: DataProto, *overrides: str, vocabulary: int | None = None
) -> tuple[Callable[[], object], int]:
    """Return a learner's whole step, and the number of its parameters."""
    torch.manual_seed(0)
    by_tokens = ("actor.use_dynamic_bsz=true", f"actor.ppo_max_token_len_per_gpu={scale.pass_tokens}")
    config = load_config([], ["actor.optim.lr=1e-6", *by_tokens, *overrides])
    shape = scale if vocabulary is None else replace(scale, vocabulary=vocabulary)
    model = network(shape).to(scale.device).train()
    actor = Actor(config.actor, model, Placement(dtype="bfloat16", device=scale.device))

    def step() -> None:
        actor.update_policy(data.union(actor.compute_log_prob(data).select(["old_log_probs"])))

    return step, sum(parameter.numel() for parameter in model.parameters())


def make_versions(root: Path, scale: Scale) -> list[Path]:
    """Save two models that differ in their weights only, with a tokenizer of bytes."""
    folders = []
    for version in range(2):
        folder = tiny_model(root / str(version), version)
        torch.manual_seed(version)
        network(scale).to(torch.bfloat16).save_pretrained(folder)
        folders.append(folder)
    return folders


async def sample(scale: Scale, versions: list[Path]) -> None:
    """Print the sampler's rate, and how long new weights take against a copy of their bytes on the device."""
    settings = TransformersModel(
        folder=versions[0], device=scale.device, dtype="bfloat16", running=scale.in_flight, prefix_tokens=0
    )
    backend = TransformersBackend("m", settings, Path("unused"))
    await backend.load()
    try:
        await flood(scale, backend)
        started = time.perf_counter()
        count = await flood(scale, backend)
        taken = time.perf_counter() - started
        print(f"\nsampler, {scale.in_flight} in flight: {count / taken:.0f} tokens/s ({count} tokens, {taken:.2f} s)")
        loads = []
        for number in range(1, scale.rounds + 2):
            started = time.perf_counter()
            await backend.load_weights(versions[number % 2], number)
            wait_for_device(scale)
            loads.append(time.perf_counter() - started)
    finally:
        await backend.close()
    model = network(scale).to(torch.bfloat16)
    host = [parameter.detach().clone() for parameter in model.parameters()]
    device = [torch.empty_like(one, device=scale.device) for one in host]
    copied = seconds(scale, lambda: [there.copy_(here) for there, here in zip(device, host, strict=True)])
    loaded = statistics.median(loads[1:])
    print(f"new weights: {loaded * 1e3:.1f} ms, a copy to the device {copied * 1e3:.1f} ms ({loaded / copied:.2f})")


async def flood(scale: Scale, backend: TransformersBackend) -> int:
    """Sample with many requests in flight; return the number of tokens."""

    async def complete(number: int) -> int:
        sampling = Sampling(temperature=1.0, max_tokens=scale.new_tokens, seed=number)
        message = Message(Role.USER, f"{number}: tell me of the fox")
        async for item in backend.generate(Request(f"r{number}", "m", (message,), sampling=sampling)):
            if isinstance(item, Completion):
                return len(item.sampled_token_ids)
        raise AssertionError("no completion")

    return sum(await asyncio.gather(*(complete(number) for number in range(scale.in_flight))))
