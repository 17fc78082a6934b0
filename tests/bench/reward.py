"""Reward: graders per second, process scores, judge overhead, each against a named baseline in the same run.

Graders: the service's engine with two verifiers against a plain loop in this process (no time limit, one bad item
stops it) and against a pool made per batch with one task per item, which is how reward managers usually bound time.
Process scores: ``ImplicitRewardModel.score`` on rows of different lengths against both networks' plain forward on one
padded batch, which is the least that any implementation computes.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from fathom.domain.grading.graders import GRADERS, Item
from fathom.domain.grading.pool import Pool
from fathom.domain.grading.verifier import grade_item
from fathom.services.reward.judging.judge import Judge, Pair
from fathom.services.reward.judging.settings import JudgeSettings

ITEMS, REPEATS = 2_048, 2
CELL = "def growth(frame):\n" + "\n".join(f"    step_{n} = frame['x'] * {n} + {n}" for n in range(20)) + "\n    return step_1\nprint(growth(sheet_1))"  # fmt: skip


def items(kind: str, seed: int = 0) -> list[tuple[str, Item]]:
    """Answers as they come in training: short ones, whole searched responses, or cells."""
    draw = random.Random(seed)
    words = [f"word{number}" for number in range(400)]

    def text(count: int) -> str:
        return " ".join(draw.choices(words, k=count))

    found = []
    for number in range(ITEMS):
        if kind == "short answers":
            name = draw.choice(("em", "sub_em", "f1", "number", "math"))
            found.append((name, Item(f"{text(4)} {number}", [f"{number}", text(4)])))
        elif kind == "searched responses":
            response = f"<think>{text(40)}</think><search>{text(6)}</search><information>{text(300)}</information><think>{text(40)}</think><answer>{number}</answer>"
            found.append(("search_r1", Item("", [str(number), text(2)], response=response)))
        else:
            found.append(("code", Item("1.5\n", [], {"finished": 1.0}, CELL.replace("growth", f"growth_{number}"))))
    return [
        (name, Item(item.answer, item.references, {**defaults(name), **item.parameters}, item.response))
        for name, item in found
    ]


def defaults(name: str) -> dict[str, float]:
    return {key: parameter.default for key, parameter in GRADERS[name].parameters.items()}


def best(work: Callable[[], object]) -> float:
    """Shortest seconds of some tries."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


async def best_of(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        await work()  # type: ignore[misc]
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def one(pair: tuple[str, Item]) -> float:
    found = grade_item(*pair)
    return found if isinstance(found, float) else getattr(found, "value", 0.0)


def pool_per_batch(batch: list[tuple[str, Item]]) -> None:
    # Spawned as the service's own processes are: forking a process with threads could hang.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        for future in [executor.submit(one, pair) for pair in batch]:
            future.result(timeout=10)


async def run() -> None:
    await graders()
    await judge()
    process()


async def graders() -> None:
    pool = Pool(2, 10.0)
    print(f"{ITEMS:,} items             engine/s    loop/s   ratio   pool per batch/s   ratio")
    try:
        # The verifiers' start and imports are paid once per service, and are no part of the figure.
        await pool.grade(items("short answers")[:256])
        for kind in ("short answers", "searched responses", "cells"):
            batch = items(kind)
            own = await best_of(lambda batch=batch: pool.grade(batch))  # type: ignore[misc]
            loop = best(lambda batch=batch: [grade_item(*pair) for pair in batch])  # type: ignore[misc]
            each = best(lambda batch=batch: pool_per_batch(batch))  # type: ignore[misc]
            print(
                f"{kind:<22}{ITEMS / own:>11,.0f}{ITEMS / loop:>10,.0f}{loop / own:>8.2f}"
                f"{ITEMS / each:>19,.0f}{each / own:>8.2f}"
            )
    finally:
        await pool.close()


async def judge() -> None:
    """Measure what the judge adds around a model that answers at once."""
    from fathom.clients import Clients
    from fathom.core.telemetry import Telemetry
    from fathom.transport.rpc.dispatch import Dispatcher
    from fathom.transport.rpc.service import Service
    from tests.unit.reward.scripted_policy import ScriptedPolicy

    telemetry = Telemetry("bench", stream=io.StringIO())
    peer = ScriptedPolicy(lambda request: json.dumps({"reason": "r", "first": 5, "second": 4}))
    dispatcher = Dispatcher(Service("policy", peer), telemetry)
    dispatcher.ready = True
    clients = Clients({"policy": "inproc://policy"}, telemetry, dispatchers={"policy": dispatcher})
    pairs = [Pair("What is it?", f"left {number}", f"right {number}") for number in range(256)]
    asked = Judge(JudgeSettings(), clients, None, telemetry.log)
    started = time.perf_counter()
    await asked.judge(pairs)
    first = time.perf_counter() - started
    started = time.perf_counter()
    await asked.judge(pairs)
    again = time.perf_counter() - started
    print(
        f"\njudge: 256 pairs, 512 votes in {first:.2f} s; the same again, remembered, in {again * 1000:.0f} ms"
        f" ({first / again:.0f} x); {len(peer.seen)} generations for 1,024 votes"
    )


def process() -> None:
    import torch

    from fathom.domain.process_reward.model import ImplicitRewardModel, Learning, log_probs
    from fathom.domain.process_reward.sequences import pad
    from fathom.trainers.learners.tiny import build_model

    # As many as this machine has, for both sides of the ratio.
    torch.set_num_threads(2)
    draw = random.Random(0)
    vocabulary = [f"w{number}" for number in range(2_000)]
    phi, reference = (build_model(vocabulary, 64, 2, seed, window=1_024) for seed in (0, 1))
    # Long-tailed, as answers are: padding to the longest is what the baseline pays for.
    lengths = [min(1_000, round(draw.lognormvariate(5.0, 0.8)) + 16) for _ in range(32)]
    rows = [[draw.randrange(8, 2_000) for _ in range(length)] for length in lengths]
    batch = pad(rows, [[0] * 8 + [1] * (length - 8) for length in lengths])
    outcome = torch.tensor([float(draw.random() < 0.5) for _ in rows])
    model = ImplicitRewardModel(phi, reference, learning=Learning(lr=1e-4, max_tokens=8_192))

    @torch.no_grad()
    def plain() -> None:
        log_probs(phi, batch)
        log_probs(reference, batch)

    tokens = sum(lengths)
    base = best(plain)
    scored = best(lambda: model.score(batch, 4, outcome))
    updated = best(lambda: model.update(batch, outcome, 4))
    print(f"\nprocess scores: 32 rows of 16 to {max(lengths)} tokens, {tokens:,} tokens, 2 layers of width 64")
    print(f"both networks, one padded batch {tokens / base:>9,.0f} tokens/s")
    print(f"score                           {tokens / scored:>9,.0f} tokens/s, ratio {base / scored:.2f}")
    print(f"update (score, then one step)   {tokens / updated:>9,.0f} tokens/s, ratio {base / updated:.2f}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        started = time.perf_counter()
        torch.save(model.state(), path)
        seconds = time.perf_counter() - started
        print(f"checkpoint of phi and optimiser: {path.stat().st_size / 1e6:.1f} MB in {seconds * 1000:.0f} ms")


if __name__ == "__main__":
    asyncio.run(run())
