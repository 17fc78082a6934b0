"""Sample the programs that a reading model writes, and pair each wrong one with that of people.

    python -m examples.smollm2_reading.pairs reading.jsonl --folder MODEL --target pairs.jsonl

``reading.jsonl`` are rows of ``fathom data stage reading``; the pairs are what ``fathom data stage export --kind dpo``
takes. A model learns most from its own mistakes, so the worse sides are sampled from the model that is to be trained,
guided by the same grammar as when it serves.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from examples.smollm2_reading.measure import complete_all
from fathom.domain.chat.messages import FinishReason
from fathom.domain.replacing import write_lines
from fathom.services.policy.backends.reading.backend import make_request
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.model import Request
from fathom.trainers.commands.left_out import say_left_out
from fathom.trainers.data.stages.reading import pair_readings
from fathom.trainers.data.stages.record import Record, read_rows


def make_sampling(question: str, options: argparse.Namespace, seed: int) -> Request:
    """Return the request of serving, drawn instead of greedy."""
    request = make_request(question, options.most)
    return replace(request, sampling=replace(request.sampling, temperature=options.temperature, seed=seed))


async def write_samples(
    backend: TransformersBackend, records: Sequence[Record], options: argparse.Namespace
) -> list[list[str]]:
    """Return the sampled programs of each row; "" for one that has no end."""
    # All at once, so that the batch stays full while some programs are longer than others.
    requests = [
        make_sampling(record.messages[-1].content, options, 1 + sample)
        for record in records
        for sample in range(options.samples)
    ]
    done = await complete_all(backend, requests)
    texts = ["" if one.finish_reason is FinishReason.LENGTH else one.text.strip() for one in done]
    return [texts[start : start + options.samples] for start in range(0, len(texts), options.samples)]


async def main(options: argparse.Namespace) -> None:
    records = read_rows(options.source, Record)
    chosen = random.Random(options.seed).sample(records, min(options.count, len(records)))
    settings = TransformersModel(folder=options.folder, threads=options.threads, dtype=options.dtype)
    backend = TransformersBackend("reading", settings, options.models)
    await backend.load()
    found = pair_readings(chosen, await write_samples(backend, chosen, options), options.name)
    await backend.close()
    say_left_out(found.left_out)
    write_lines(options.target, (record.model_dump_json(exclude_defaults=True) for record in found.records))
    print(f"{options.target}: {len(found.records):,} pairs", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="rows of `fathom data stage reading`")
    parser.add_argument("--target", type=Path, required=True, help="JSON Lines to write")
    parser.add_argument("--folder", type=Path, help="model that is sampled; none is SmolLM2")
    parser.add_argument("--models", type=Path, default=Path(".fathom/models"), help="folder with SmolLM2")
    parser.add_argument("--name", default="sft", help="how the pairs call the model")
    parser.add_argument("--count", type=int, default=200, help="at most this many rows, drawn by the seed")
    parser.add_argument("--samples", type=int, default=1, help="programs of a question")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--most", type=int, default=160, help="longest program in tokens")
    parser.add_argument("--dtype", default="float32", help="bfloat16 where the processor has it: twice as fast")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parse_options()))
