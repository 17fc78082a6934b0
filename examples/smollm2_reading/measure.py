"""Measure how many questions a reading model reads as people do, and from which probability on it can be trusted.

    python -m examples.smollm2_reading.measure held.jsonl --adapter ADAPTER

``held.jsonl`` are rows of ``fathom data stage reading`` that no training has seen. A program counts as read when it is
word for word that of the row: a lower bound, since two programs may compute the same. Without ``--adapter`` the raw
model is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

from fathom.domain.chat.messages import Completion
from fathom.operations.shadow.gate import wilson
from fathom.services.policy.backends.reading.backend import make_request
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.model import Request
from fathom.trainers.data.stages.record import Record, read_rows

LEVELS = (0.0, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97)


async def complete_all(backend: TransformersBackend, requests: Sequence[Request]) -> list[Completion]:
    """Return what the model writes to each request, eight at a time."""
    gate = asyncio.Semaphore(8)

    async def complete(request: Request) -> Completion:
        async with gate:
            items = [item async for item in backend.generate(request)]
            done = items[-1]
            assert isinstance(done, Completion)
            return done

    return list(await asyncio.gather(*map(complete, requests)))


async def write_programs(backend: TransformersBackend, questions: Sequence[str], most: int) -> list[tuple[str, float]]:
    """Return the program of each question with the geometric mean of its tokens' probabilities."""
    found = await complete_all(backend, [make_request(question, most) for question in questions])
    return [(one.text.strip(), math.exp(sum(one.log_probs) / max(len(one.log_probs), 1))) for one in found]


def print_levels(records: Sequence[Record], found: Sequence[tuple[str, float]]) -> None:
    """Print how many programs are as sure as each level, and how many of these are right."""
    for level in LEVELS:
        sure = [text == record.output for record, (text, chance) in zip(records, found, strict=True) if chance >= level]
        if sure:
            low, high = wilson(sum(sure), len(sure))
            print(f"from {level:.2f} on: {len(sure):>4} of {len(records)}, right {sum(sure):>4}"
                  f" = {sum(sure) / len(sure):.1%} [{low:.1%}, {high:.1%}]", flush=True)  # fmt: skip


async def main(options: argparse.Namespace) -> None:
    records = read_rows(options.held, Record)[: options.count]
    settings = TransformersModel(folder=options.folder, adapter=options.adapter, threads=options.threads)
    backend = TransformersBackend("reading", settings, options.models)
    await backend.load()
    found = await write_programs(backend, [record.messages[-1].content for record in records], options.most)
    print_levels(records, found)
    for record, (text, chance) in list(zip(records, found, strict=True))[: options.show]:
        print(f"{chance:.2f} {record.messages[-1].content}\n    {text!r}\n    {record.output!r}")
    await backend.close()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("held", type=Path, help="rows that no training has seen")
    parser.add_argument("--folder", type=Path, help="whole model, such as one with an adapter merged; none is SmolLM2")
    parser.add_argument("--adapter", type=Path, help="LoRA adapter; none is the raw model")
    parser.add_argument("--models", type=Path, default=Path(".fathom/models"), help="folder with SmolLM2")
    parser.add_argument("--most", type=int, default=256, help="longest program in tokens")
    parser.add_argument("--count", type=int, default=10_000, help="at most this many rows")
    parser.add_argument("--show", type=int, default=0, help="print so many programs beside those of people")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parse_options()))
