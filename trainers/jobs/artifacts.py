"""Artifacts of a training job: stage inputs from, and upload outputs to, the object store.

Pods have no persistent disk. A data file written as ``store:KEY`` is downloaded before the training;
its outputs are uploaded to ``training/<name of the output folder>/`` afterwards. Checkpoints are written to the store
directly (``fathom.trainers.checkpoints``), metrics and samples during training (``fathom.trainers.monitor``), so a
killed job loses nothing it needs to resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from fathom.core.errors import NotFound
from fathom.domain.training_report.about import ABOUT, PREFIX, SAMPLES
from fathom.trainers.config import TrainConfig
from fathom.trainers.store_files import with_store
from fathom.transport.store import ObjectStore

SCHEME = "store:"
BROUGHT = "brought"
"""Folder below ``trainer.output`` for downloaded inputs."""
LEFT_OUT = frozenset({BROUGHT, "rollouts", ABOUT, SAMPLES})
"""Not uploaded: downloaded inputs; recorded rollout batches, which are many and large; what the training has
uploaded itself.
"""


def stage_inputs(config: TrainConfig, url: str) -> TrainConfig:
    """Download ``store:`` data files, which the driver alone reads, and return settings with local paths.

    Models are fetched by the learners, where they run (``fathom.trainers.learners.stored_models``).

    Raises ``NotFound`` for a key without objects.
    """
    data = config.data
    if not any(str(place).startswith(SCHEME) for place in (*data.train_files, *data.val_files, *data.held_files)):
        return config

    async def download(store: ObjectStore) -> TrainConfig:
        folder = config.trainer.output / BROUGHT
        files = {
            name: tuple([await download_input(store, str(place), folder) for place in getattr(data, name)])
            for name in ("train_files", "val_files", "held_files")
        }
        return config.model_copy(update={"data": data.model_copy(update=files)})

    return asyncio.run(with_store(url, download))


def upload_outputs(config: TrainConfig, url: str) -> list[str]:
    """Upload the output folder, except ``LEFT_OUT``, and return the keys."""
    output = config.trainer.output

    async def upload(store: ObjectStore) -> list[str]:
        return [
            (await store.put(f"{PREFIX}/{output.name}/{name}", await asyncio.to_thread(path.read_bytes))).key
            for name, path in list_outputs(output)
        ]

    return asyncio.run(with_store(url, upload))


def list_outputs(output: Path) -> Iterable[tuple[str, Path]]:
    """Yield (name, path) of the files to upload, sorted by name."""
    for path in sorted(output.rglob("*")):
        relative = path.relative_to(output)
        # Inputs lie in the store already, and rollouts are read where they were recorded.
        if path.is_file() and relative.parts[0] not in LEFT_OUT:
            yield relative.as_posix(), path


async def download_input(store: ObjectStore, place: str, folder: Path) -> Path:
    """Return a local path, downloading the object or all objects under the key.

    Raises ``NotFound`` when there are none.
    """
    if not place.startswith(SCHEME):
        return Path(place)
    key = place.removeprefix(SCHEME)
    if await store.head(key) is not None:
        return await download_file(store, key, folder / key)
    found = await store.list(f"{key}/")
    if not found:
        raise NotFound("object", place)
    for stored in found:
        await download_file(store, stored.key, folder / stored.key)
    return folder / key


async def download_file(store: ObjectStore, key: str, path: Path) -> Path:
    """Download an object to a file."""
    data = await store.get(key)

    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    await asyncio.to_thread(write)
    return path
