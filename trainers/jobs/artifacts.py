"""Artifacts of a training job: stage inputs from, and upload outputs to, the object store.

Pods have no persistent disk. A data file written as ``store:KEY`` is downloaded before the training;
its outputs are uploaded to ``training/<name of the output folder>/`` afterwards. Checkpoints are written to the store
directly (``fathom.trainers.checkpoints``), and metrics are uploaded during training, so a killed job loses nothing
it needs to resume.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from fathom.core.errors import FathomError, NotFound
from fathom.trainers.config import TrainConfig
from fathom.trainers.monitor.loggers import METRICS
from fathom.trainers.store_files import with_store
from fathom.transport.store import ObjectStore

SCHEME = "store:"
PREFIX = "training"
BROUGHT = "brought"
"""Folder below ``trainer.output`` for downloaded inputs."""
LEFT_OUT = frozenset({BROUGHT, "rollouts"})
"""Folders that are not uploaded: downloaded inputs, and recorded rollout batches, which are many and large."""
# Each upload sends the whole file, so it must be rare beside a step, and often enough for a curve that is watched.
EVERY_S = 60.0


def stage_inputs(config: TrainConfig, url: str) -> TrainConfig:
    """Download ``store:`` data files, which the driver alone reads, and return settings with local paths.

    Models are fetched by the learners, where they run (``fathom.trainers.learners.stored_models``).

    Raises ``NotFound`` for a key without objects.
    """
    data = config.data
    if not any(str(place).startswith(SCHEME) for place in (*data.train_files, *data.val_files)):
        return config

    async def download(store: ObjectStore) -> TrainConfig:
        folder = config.trainer.output / BROUGHT
        files = {
            name: tuple([await download_input(store, str(place), folder) for place in getattr(data, name)])
            for name in ("train_files", "val_files")
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


class MetricsUploader:
    """Periodic upload of a job's metrics during training: a killed pod loses at most ``EVERY_S`` seconds of them."""

    def __init__(self, config: TrainConfig, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._url, self._clock = config.trainer.output / METRICS, url, clock
        self._key, self._resumes = f"{PREFIX}/{config.trainer.output.name}/{METRICS}", config.trainer.resume_mode
        self._kept = clock()

    def restore(self) -> None:
        """Download the metrics of earlier attempts, unless they exist locally or resuming is disabled."""
        if self._path.exists() or self._resumes == "disable":
            return

        async def download(store: ObjectStore) -> None:
            if await store.head(self._key) is not None:
                await download_file(store, self._key, self._path)

        asyncio.run(with_store(self._url, download))

    def upload(self) -> None:
        """Upload the metrics if ``EVERY_S`` seconds have passed since the last upload."""
        if self._clock() - self._kept < EVERY_S or not self._path.exists():
            return
        # Before the upload: with a store out of reach, each step would otherwise wait for another attempt.
        self._kept = self._clock()

        async def upload(store: ObjectStore) -> None:
            await store.put(self._key, await asyncio.to_thread(self._path.read_bytes))

        # The whole file is uploaded each time, so the next upload makes up for one that fails.
        with suppress(FathomError):
            asyncio.run(with_store(self._url, upload))


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
