"""From a learner's tensors to policy's: by the object store and by shared memory, against a plain copy of the bytes.

A random model of SmolLM2's shape (135 million parameters, float32, 538 MB), one thread each. The copy is that of the
weights' file into a new file in memory, in turn with what is measured; each line is the median of ``ROUNDS``. With
memory the store has the files too, before policy takes them or while it does. The S3 store is ``rclone serve s3`` over
a folder of this machine, whose processor time and disk are in the figure; without rclone its line is left out.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from fathom.domain.weights.manifest import WeightFile, write_manifest
from fathom.domain.weights.serving import Share
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.serving.downloads import Downloads
from fathom.services.policy.serving.shared_versions import SharedVersions
from fathom.trainers.learners.models import SaveWeights, save_weights
from fathom.trainers.store_files import Sharing, StoredFiles, StoreFolder
from fathom.trainers.transfers import StoreTransfer
from fathom.transport.checksums import SHA256, algorithm_of, choose_algorithm, hash_file
from fathom.transport.sockets import reserved_port
from fathom.transport.store import ObjectStore, open_store
from tests.bench.policy.weights import THREADS
from tests.integration.policy.weights.models import tiny_model
from tests.integration.s3_server import RCLONE, serving

ROUNDS = 5
# Twice 538 MB and room.
MEMORY_BYTES = 2 << 30
IN_MEMORY = Path("/dev/shm")


class Worker:
    """A learner's network with the files of a folder beside its weights."""

    def __init__(self, base: Path, network: Any) -> None:
        self._base, self.network = base, network

    def export(self, folder: Path, save: SaveWeights = save_weights) -> None:
        for path in self._base.iterdir():
            if path.suffix != ".safetensors":
                shutil.copy(path, folder)
        state = {
            name: one.data.contiguous() for name, one in self.network.state_dict().items() if name != "lm_head.weight"
        }
        save(state, folder / "model.safetensors")


class Learner(StoreTransfer):
    def __init__(self, worker: Worker) -> None:
        self.worker = worker


class Quiet:
    """A log that says nothing."""

    def info(self, *words: object, **fields: object) -> None: ...
    def warning(self, *words: object, **fields: object) -> None: ...


@dataclass(frozen=True)
class Publication:
    """Seconds of one publication: the copy beside it, the learner's part, policy's fetch, its load."""

    copy: float
    upload: float
    fetch: float
    load: float

    @property
    def whole(self) -> float:
        return self.upload + self.fetch + self.load


async def run() -> None:
    """Needs torch and transformers; about 4 GB of memory and 4 GB of disk."""
    import torch

    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir=IN_MEMORY) as memory:
        root = Path(name)
        worker = await asyncio.to_thread(make_learner, root / "base")
        source = Path(memory) / "weights"
        shutil.copyfile(root / "base" / "model.safetensors", source)
        backend = TransformersBackend("m", TransformersModel(folder=root / "base", threads=THREADS), Path("unused"))
        await backend.load()
        print(
            f"{f'{source.stat().st_size / 1e6:.0f} MB, against a copy':<44}{'upload':>9}{'fetch':>9}{'load':>9}{'all':>9}"
        )
        url, algorithm = (root / "store").as_uri(), choose_algorithm()
        folder = StoreFolder(url, "weights/m", by_content=True, algorithm=algorithm)
        first, meanwhile = (Sharing(root / "meeting", MEMORY_BYTES, True, is_ahead=ahead) for ahead in (False, True))
        ways = {
            "object store (a folder), SHA-256": replace(folder, algorithm=SHA256),
            "object store (a folder)": folder,
            "shared memory, the store first": replace(folder, sharing=first),
            "shared memory, the store meanwhile": replace(folder, sharing=meanwhile),
        }
        for label, target in ways.items():
            taken = await publish(worker, backend, root, target, source)
            print(f"{label:<44}{row(taken)}", flush=True)
        if RCLONE is not None:
            with reserved_port() as port:
                async with serving(root, f"127.0.0.1:{port}") as url:
                    taken = await publish(worker, backend, root, replace(folder, url=url), source)
            print(f"{'object store (S3, by rclone)':<44}{row(taken)}", flush=True)
        print(f"the copy itself: {statistics.median(one.copy for one in taken):.3f} s")
        await backend.close()


def make_learner(base: Path) -> Worker:
    """Return a learner, with its first weights in the folder ``base``."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    shape = LlamaConfig(
        vocab_size=49_152, hidden_size=576, intermediate_size=1_536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2_048, tie_word_embeddings=True, eos_token_id=257,
    )  # fmt: skip
    tiny_model(base, 0)
    network: Any = LlamaForCausalLM(shape)
    network.save_pretrained(str(base))
    return Worker(base, network)


async def publish(
    worker: Worker, backend: TransformersBackend, root: Path, folder_of_model: StoreFolder, source: Path
) -> Sequence[Publication]:
    """Publish one version after another, after two to warm up: policy's spare tensors are allocated by then."""
    import torch

    learner, sharing = Learner(worker), folder_of_model.sharing
    store, shared = open_store(folder_of_model.url), SharedVersions(sharing.folder if sharing else None, Quiet())
    downloads, found = Downloads(store, root / "cache", shared), []
    for version in range(1, ROUNDS + 3):
        with torch.no_grad():
            for parameter in worker.network.parameters():
                parameter += 1e-3
        # Between two publications lie seconds of learning, in which an upload ends.
        await asyncio.to_thread(learner.settle)
        copy = await asyncio.to_thread(measure, lambda: shutil.copyfile(source, source.with_name("copy")))
        source.with_name("copy").unlink()
        started = time.perf_counter()
        files = await asyncio.to_thread(learner.upload, "export", folder_of_model.part(str(version)))
        listed = [WeightFile(name, one.key, one.size_bytes, one.checksum) for name, one in files.items()]
        share = Share(version, 100, await write_manifest(store, "m", version, listed))
        uploaded = time.perf_counter()
        folder = await downloads.fetch("m", share)
        fetched = time.perf_counter()
        await backend.load_weights(folder, version)
        found.append(Publication(copy, uploaded - started, fetched - uploaded, time.perf_counter() - fetched))
        if version == 1:
            check_bytes(folder, files, worker)
        await downloads.prune("m", {share.ident})
        await remove(store, f"weights/m/{version - 1}/")
    learner.close()
    await downloads.close()
    await remove(store, "weights/")
    await store.close()
    return found[2:]


def check_bytes(folder: Path, files: StoredFiles, worker: Worker) -> None:
    """Check that policy has the learner's files, and in them the learner's numbers."""
    found: dict[str, Any] = {}
    for name, one in files.items():
        assert hash_file(folder / name, algorithm_of(one.checksum)) == one.checksum, "other bytes than the learner's"
        found |= load_file(folder / name) if name.endswith(".safetensors") else {}
    state = worker.network.state_dict()
    assert found, "no weights"
    assert all(bool((one == state[name]).all()) for name, one in found.items()), "other numbers"


async def remove(store: ObjectStore, prefix: str) -> None:
    """Remove what a store has below a prefix, as retention does later."""
    for key in await store.keys(prefix):
        await store.delete(key)


def measure(work: Callable[[], object]) -> float:
    """Return seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def row(taken: Sequence[Publication]) -> str:
    parts = [[getattr(one, part) / one.copy for one in taken] for part in ("upload", "fetch", "load", "whole")]
    return "".join(f"{statistics.median(part):>9.2f}" for part in parts)
