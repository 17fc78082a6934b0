"""Tokens per second of the local engines against ``transformers.generate`` called once per request.

``python -m tests.bench policy`` measures every engine that is installed. The baseline generates the same prompts one
after the other with its own key-value cache, in the same process and with the same threads; rounds are interleaved.
Also: time to the first token, and what reusing the prefix saves over a conversation of twelve turns.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.domain.smollm2 import smollm2_folder
from fathom.services.policy.config import Config, ModelConfig, TransformersModel, VllmModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request
from fathom.transport.store import open_store

IN_FLIGHT = (1, 8, 32)
NEW_TOKENS, TURNS, ROUNDS = 48, 12, int(os.environ.get("BENCH_ROUNDS", "2"))
THREADS = int(os.environ.get("BENCH_THREADS", "1"))
CACHE = Path(".fathom/models")


def prompt(index: int) -> tuple[Message, ...]:
    """About sixty tokens that begin differently, so that no two requests share a prefix."""
    return (
        Message(Role.USER, f"{index}: {chr(97 + index % 26) * 3}. Tell me a long story about the fox number {index}, "
                "the hen and the farmer who could not sleep at night because of the noise of the town below."),
    )  # fmt: skip


async def complete(engine: Engine, messages: Sequence[Message], tokens: int, **fields: Any) -> tuple[Completion, float]:
    """The completion, and seconds until its first piece."""
    sampling = Sampling(temperature=1.0, max_tokens=tokens, seed=1)
    request = Request(new_id("bench"), "", tuple(messages), **{"sampling": sampling, **fields})
    started, first = time.perf_counter(), 0.0
    async for item in engine.generate(request, lambda: None):
        if isinstance(item, Completion):
            return item, first or time.perf_counter() - started
        first = first or time.perf_counter() - started
    raise AssertionError("no completion")


async def flood(engine: Engine, count: int) -> tuple[float, float]:
    """Tokens per second with ``count`` requests in flight, and the median seconds to a first token."""
    started = time.perf_counter()
    done = await asyncio.gather(*(complete(engine, prompt(index), NEW_TOKENS) for index in range(count)))
    seconds = time.perf_counter() - started
    return sum(len(item.sampled_token_ids) for item, _ in done) / seconds, statistics.median(first for _, first in done)


class PerCall:
    """The baseline: ``generate`` as a script would call it, one request at a time."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(THREADS)
        self._torch = torch
        self._network: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))

    def rate(self, count: int) -> float:
        """Tokens per second over ``count`` requests."""
        started, tokens = time.perf_counter(), 0
        for index in range(count):
            tokens += self.generate([{"role": "user", "content": prompt(index)[0].content}], NEW_TOKENS)[1]
        return tokens / (time.perf_counter() - started)

    def generate(self, conversation: list[dict[str, str]], tokens: int) -> tuple[str, int]:
        encoded = self._tokenizer.apply_chat_template(
            conversation, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with self._torch.inference_mode():
            whole = self._network.generate(**encoded, max_new_tokens=tokens, do_sample=True, temperature=1.0)
        sampled = whole[0, encoded["input_ids"].shape[1] :]
        return self._tokenizer.decode(sampled, skip_special_tokens=True), len(sampled)


async def open_engine(config: ModelConfig) -> Engine:
    settings = Config(models={"m": config}, default_model="m", cache_dir=CACHE)
    engine = Engine(settings, open_store("memory://"), structlog.get_logger())
    await engine.start()
    await complete(engine, prompt(0), 4)
    return engine


def contenders(folder: Path) -> dict[str, ModelConfig]:
    known: dict[str, ModelConfig] = {
        "transformers": TransformersModel(folder=folder, threads=THREADS, running=32, prefix_tokens=16_384)
    }
    if importlib.util.find_spec("vllm") is not None:
        known["vllm"] = VllmModel(engine="vllm", folder=folder, threads=THREADS, window_tokens=4096, dtype="float32")
    wanted = os.environ.get("BENCH_ENGINES", "").split(",")
    return {name: config for name, config in known.items() if name in wanted or wanted == [""]}


async def run() -> None:
    """Measure with SmolLM2, fetched and converted at the first run."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    folder = await asyncio.to_thread(smollm2_folder, CACHE)
    baseline = await asyncio.to_thread(PerCall, folder)
    await asyncio.to_thread(baseline.rate, 1)
    for name, config in contenders(folder).items():
        engine = await open_engine(config)
        try:
            await throughput(name, engine, baseline)
            await conversation(name, engine, baseline)
        finally:
            await engine.close()


async def throughput(name: str, engine: Engine, baseline: PerCall) -> None:
    print(f"{name:<14}{'in flight':>10}{'tok/s':>8}{'generate':>10}{'ratio':>7}{'first token s':>15}")
    for count in IN_FLIGHT:
        rates, plain, firsts = [], [], []
        for _ in range(ROUNDS):
            # The baseline's rate does not depend on how many wait in line.
            plain.append(await asyncio.to_thread(baseline.rate, min(count, 4)))
            rate, first = await flood(engine, count)
            rates.append(rate)
            firsts.append(first)
        ours, theirs = statistics.median(rates), statistics.median(plain)
        print(f"{'':<14}{count:>10}{ours:>8.1f}{theirs:>10.1f}{ours / theirs:>7.1f}{statistics.median(firsts):>15.2f}")


async def conversation(name: str, engine: Engine, baseline: PerCall) -> None:
    """Twelve turns with ids passed back, against ``generate`` on the whole conversation each time, and against the
    same engine with a prefix that it cannot know."""
    opening = "You are an analyst. " + "Answer from the figures that the tools gave, and cite them. " * 12
    messages, ids, covered = [Message(Role.SYSTEM, f"{new_id('c')} {opening}")], [], 0  # type: ignore[var-annotated]
    ours, theirs, anew, cached, total = 0.0, 0.0, 0.0, 0, 0
    for turn in range(TURNS):
        messages.append(Message(Role.USER, f"Turn {turn}: " + "the table says 1.25, 3.5 and 7.75 per cent. " * 6))
        started = time.perf_counter()
        fields = {"context_token_ids": tuple(ids), "context_messages": covered}
        completion, _ = await complete(engine, messages, 16, **fields)
        ours += time.perf_counter() - started
        started = time.perf_counter()
        unknown = [Message(Role.SYSTEM, f"{new_id('u')} {opening}"), *messages[1:]]
        await complete(engine, unknown, 16)
        anew += time.perf_counter() - started
        spoken = [{"role": str(message.role), "content": message.content} for message in messages]
        started = time.perf_counter()
        await asyncio.to_thread(baseline.generate, spoken, 16)
        theirs += time.perf_counter() - started
        cached, total = cached + completion.usage.cached_tokens, total + completion.usage.prompt_tokens
        ids += [*completion.prompt_token_ids, *completion.sampled_token_ids]
        messages.append(Message(Role.ASSISTANT, completion.text))
        covered = len(messages)
    print(f"{name}: {TURNS} turns to {total // TURNS} tokens on average: {ours:.1f} s, generate {theirs:.1f} s, "
          f"ratio {theirs / ours:.1f}; without a known prefix {anew:.1f} s, ratio {anew / ours:.1f}; "
          f"{cached / total:.0%} of the prompt tokens not computed again")  # fmt: skip
