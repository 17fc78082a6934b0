"""Serving new weights: time to load against copying the same bytes, the pause that sampling sees, deltas, adapters.

A random model of SmolLM2's shape (135 million parameters). Baselines, in the same run: a copy between two warm
buffers of the network's size (the memory limit), and ``from_pretrained`` of the same folder.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fathom.core.ids import sha256
from fathom.domain.chat.messages import Message, Role, Sampling
from fathom.domain.weights.manifest import fetch, publish
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.model import Request
from fathom.transport.store import open_store

ROUNDS, VERSIONS, THREADS, TOKENS = 9, 3, 1, 60
PARAMETERS = 134_515_008


async def run() -> None:
    """Needs torch and transformers; about 2 GB of memory and 2 GB of disk."""
    with tempfile.TemporaryDirectory() as root:
        folders = await asyncio.to_thread(make_versions, Path(root))
        await loading(folders)
        await pausing(folders)
        await fetching(folders, Path(root))


def make_versions(root: Path) -> dict[str, list[Path]]:
    """Versions that differ in their weights only, stored in float32 and in bfloat16."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    from tests.integration.policy.weights.models import tiny_model

    logging.disable_progress_bar()
    shape = LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1_536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2_048, tie_word_embeddings=True, eos_token_id=257,
    )  # fmt: skip
    made: dict[str, list[Path]] = {"float32": [], "bfloat16": []}
    for name, folders in made.items():
        for version in range(VERSIONS):
            folder = tiny_model(root / f"{name}-{version}", version)
            torch.manual_seed(version)
            network: Any = LlamaForCausalLM(shape)
            network.to(getattr(torch, name)).save_pretrained(str(folder))
            folders.append(folder)
    return made


class MemoryCopy:
    """Copies as many bytes as the network has, between buffers that were touched before."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(THREADS)
        self._source, self._target = torch.rand(PARAMETERS), torch.rand(PARAMETERS)

    def seconds(self) -> float:
        started = time.perf_counter()
        self._target.copy_(self._source)
        return time.perf_counter() - started


def median(work: Callable[[], object]) -> float:
    """Seconds."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


async def measure_seconds(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


def row(name: str, seconds: float, limit: float) -> None:
    print(f"{name:<44}{seconds * 1000:>9.1f} ms{seconds / limit:>9.2f}")


async def loading(folders: dict[str, list[Path]]) -> None:
    """First, second and later loads, these in turn with copies: they are what a training sees."""
    copy = await asyncio.to_thread(MemoryCopy)
    print(f"{'134.5 M parameters, 538 MB in memory':<44}{'time':>12}{'/ copy':>9}")
    for name, versions in folders.items():
        for folder in versions:  # into the page cache, where a fetch leaves it
            await asyncio.to_thread(lambda path: [file.read_bytes() for file in path.iterdir()], folder)
        backend = TransformersBackend("m", TransformersModel(folder=versions[0], threads=THREADS), Path("unused"))
        whole = await measure_seconds(backend.load())
        second = await measure_seconds(backend.load_weights(versions[1], 1))
        copies, later = [], []
        for index in range(ROUNDS):
            copies.append(await asyncio.to_thread(copy.seconds))
            later.append(await measure_seconds(backend.load_weights(versions[(index + 2) % VERSIONS], index + 2)))
        limit = min(copies)
        row("memory copy, one thread (best)", limit, limit)
        row(f"{name}: from_pretrained, the first load", whole, limit)
        row(f"{name}: second load, buffers allocated", second, limit)
        row(f"{name}: later loads (best)", min(later), limit)
        row(f"{name}: later loads (median, / median)", statistics.median(later), statistics.median(copies))
        await backend.close()
    await adapting(folders["float32"], limit)


async def adapting(versions: list[Path], limit: float) -> None:
    """A LoRA adapter of rank 16 on all linear layers: merged into the spare copy while it is read."""
    adapter = await asyncio.to_thread(make_adapter, versions[0])
    backend = TransformersBackend("m", TransformersModel(folder=versions[0], threads=THREADS), Path("unused"))
    await backend.load()
    taken = []
    for index in range(ROUNDS):
        taken.append(await measure_seconds(backend.load_weights(adapter, 2 * index + 1)))
        await backend.load_weights(versions[0], 2 * index + 2)
    size = (adapter / "adapter_model.safetensors").stat().st_size
    row(f"adapter of {size / 1e6:.0f} MB, merged (best of later)", min(taken[1:]), limit)
    await backend.close()


def make_adapter(base: Path) -> Path:
    """An adapter as PEFT saves it."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
    made = peft.get_peft_model(network, peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    made.save_pretrained(str(base.parent / "adapter"))
    return base.parent / "adapter"


async def pausing(folders: dict[str, list[Path]]) -> None:
    """Measure what a running generation and its successor see while versions are loaded one after another."""
    versions = folders["float32"]
    backend = TransformersBackend("m", TransformersModel(folder=versions[0], threads=THREADS), Path("unused"))
    await backend.load()
    quiet = await gaps(backend, None)
    busy = await gaps(backend, versions)
    print(f"\n{'gap between two tokens':<44}{'median':>12}{'p95':>12}{'largest':>12}")
    for name, values in (("nothing is loaded", quiet), ("versions are loaded all the time", busy)):
        ordered = sorted(values)
        p95 = ordered[int(len(ordered) * 0.95)]
        print(
            f"{name:<44}{statistics.median(ordered) * 1000:>9.1f} ms{p95 * 1000:>9.1f} ms{ordered[-1] * 1000:>9.1f} ms"
        )
    swaps = []
    for index in range(ROUNDS):
        swap = await backend.stage_weights(versions[index % VERSIONS], index + 10)
        started = time.perf_counter()
        swap()
        swaps.append(time.perf_counter() - started)
    print(f"{'the swap itself':<44}{statistics.median(swaps) * 1e6:>9.1f} µs")
    await backend.close()


async def gaps(backend: TransformersBackend, versions: list[Path] | None) -> list[float]:
    """Seconds between the ends of two steps of the batch, one token each."""
    from fathom.services.policy.backends.transformers.batch import Batch

    ends: list[float] = []
    original = Batch.step

    def note_end(batch: Any, *args: Any) -> Any:
        done = original(batch, *args)
        ends.append(time.perf_counter())
        return done

    request = Request(
        "g", "m", (Message(Role.USER, "x" * 64),), sampling=Sampling(temperature=1, max_tokens=TOKENS, seed=1)
    )
    loading = asyncio.create_task(reload_for_ever(backend, versions)) if versions else None
    Batch.step = note_end  # type: ignore[assignment,method-assign]
    try:
        async for _ in backend.generate(request):
            pass
    finally:
        Batch.step = original  # type: ignore[method-assign]
    if loading is not None:
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
    return [later - earlier for earlier, later in itertools.pairwise(ends)]


async def reload_for_ever(backend: TransformersBackend, versions: list[Path]) -> None:
    version = 1
    while True:
        await backend.load_weights(versions[version % VERSIONS], version)
        version += 1


def step(folder: Path, target: Path, percent: float) -> Path:
    """The folder after an optimiser step that changed so many of its weights, by their last bit."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, target)
    torch.manual_seed(1)
    tensors = load_file(str(target / "model.safetensors"))
    for tensor in tensors.values():
        bits = tensor.view(torch.int16)
        bits ^= (torch.rand(bits.shape) < percent / 100).to(torch.int16)
    save_file(tensors, str(target / "model.safetensors"), metadata={"format": "pt"})
    return target


async def fetching(folders: dict[str, list[Path]], root: Path) -> None:
    """The way through a store in a folder: publish, fetch and check, against hashing alone."""
    store = open_store(f"file://{root / 'store'}")
    folder = folders["bfloat16"][0]
    data = await asyncio.to_thread((folder / "model.safetensors").read_bytes)
    hashing = await asyncio.to_thread(median, lambda: sha256(data))
    print(f"\n{f'{len(data) / 1e6:.0f} MB of bfloat16 weights':<44}{'median':>12}{'/ hash':>9}")
    row("SHA-256 once", hashing, hashing)
    row("publish to a folder store", await measure_seconds(publish(store, folder, "m", 1)), hashing)
    ref = await publish(store, folder, "m", 1)
    row("fetch, checked", await measure_seconds(fetch(store, ref, root / "fetched" / "1")), hashing)
    for percent in (0.1, 1, 3, 10):
        changed = await asyncio.to_thread(step, folder, root / f"step-{percent}", percent)
        whole = await store.list("weights/m/2/")
        published = await measure_seconds(publish(store, changed, "m", 2, delta_to=ref))
        [stored] = [item for item in await store.list("weights/m/2/") if item not in whole and "delta" in item.key]
        second = await publish(store, changed, "m", 2, delta_to=ref)
        name = f"{percent:g} % of the weights changed"
        share = stored.size_bytes / len(data)
        row(f"{name}: publish ({share:.1%} of the bytes)", published, hashing)
        row(f"{name}: fetch", await measure_seconds(fetch(store, second, root / "fetched" / f"{percent}")), hashing)
    await store.close()
