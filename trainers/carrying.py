"""What a job on a cluster brings along and leaves behind, since the disk of its pod goes with it.

A data file or a model's folder that is written ``store:KEY`` is fetched from the object store before the training;
what the training has written is kept under ``training/<name of the output folder>/`` after it. Checkpoints are in the
store from the start (``trainers.checkpoints``), and so are the curves: what the last attempt could not leave, being
killed, is not needed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from fathom.errors import FathomError, NotFound
from fathom.store import ObjectStore, open_store
from trainers.config import TrainConfig
from trainers.monitor.loggers import METRICS

SCHEME = "store:"
PREFIX = "training"
BROUGHT = "brought"
"""Folder under ``trainer.output`` with what was fetched."""
LEFT_OUT = frozenset({BROUGHT, "rollouts"})
"""Folders that are not kept: copies, and batches of rollouts, which are many and large."""
EVERY_S = 60.0
R = TypeVar("R")


def bring(config: TrainConfig, url: str) -> TrainConfig:
    """The settings with ``store:`` places replaced by local ones; raises ``NotFound`` for a key that holds nothing."""
    data = config.data
    if not any(str(place).startswith(SCHEME) for place in (*data.train_files, *data.val_files, config.model.path)):
        return config

    async def fetched(store: ObjectStore) -> TrainConfig:
        folder = config.trainer.output / BROUGHT
        files = {
            name: tuple([await local(store, str(place), folder) for place in getattr(data, name)])
            for name in ("train_files", "val_files")
        }
        model = {"path": str(await local(store, config.model.path, folder))}
        return config.model_copy(
            update={"data": data.model_copy(update=files), "model": config.model.model_copy(update=model)}
        )

    return asyncio.run(with_store(url, fetched))


def keep(config: TrainConfig, url: str) -> list[str]:
    """Stores what the output folder holds; the keys. Copies of what was brought, and recorded batches, stay behind."""
    output = config.trainer.output

    async def stored(store: ObjectStore) -> list[str]:
        return [
            (await store.put(f"{PREFIX}/{output.name}/{name}", await asyncio.to_thread(path.read_bytes))).key
            for name, path in kept(output)
        ]

    return asyncio.run(with_store(url, stored))


class Curves:
    """The metrics of a job in the store while it trains: a pod that is killed loses ``EVERY_S`` seconds of them."""

    def __init__(self, config: TrainConfig, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._url, self._clock = config.trainer.output / METRICS, url, clock
        self._key, self._resumes = f"{PREFIX}/{config.trainer.output.name}/{METRICS}", config.trainer.resume_mode
        self._kept = clock()

    def bring(self) -> None:
        """What earlier attempts have measured, unless it is here already or the training begins anew."""
        if self._path.exists() or self._resumes == "disable":
            return

        async def fetched(store: ObjectStore) -> None:
            if await store.head(self._key) is not None:
                await written(store, self._key, self._path)

        asyncio.run(with_store(self._url, fetched))

    def keep(self) -> None:
        """Stores them where that is ``EVERY_S`` ago; what a store that is away does not take, the next time has too."""
        if self._clock() - self._kept < EVERY_S or not self._path.exists():
            return
        self._kept = self._clock()

        async def stored(store: ObjectStore) -> None:
            await store.put(self._key, await asyncio.to_thread(self._path.read_bytes))

        with suppress(FathomError):
            asyncio.run(with_store(self._url, stored))


def kept(output: Path) -> Iterable[tuple[str, Path]]:
    """(name, path) of the files to keep, sorted by name."""
    for path in sorted(output.rglob("*")):
        relative = path.relative_to(output)
        if path.is_file() and relative.parts[0] not in LEFT_OUT:
            yield relative.as_posix(), path


async def with_store(url: str, work: Callable[[ObjectStore], Awaitable[R]]) -> R:
    """Opens the store for one piece of work."""
    store = open_store(url)
    try:
        return await work(store)
    finally:
        await store.close()


async def local(store: ObjectStore, place: str, folder: Path) -> Path:
    """Where a place is now: itself, or the copy of the file or of all files under the key."""
    if not place.startswith(SCHEME):
        return Path(place)
    key = place.removeprefix(SCHEME)
    if await store.head(key) is not None:
        return await written(store, key, folder / key)
    found = await store.list(f"{key}/")
    if not found:
        raise NotFound("object", place)
    for stored in found:
        await written(store, stored.key, folder / stored.key)
    return folder / key


async def written(store: ObjectStore, key: str, path: Path) -> Path:
    """The object's bytes in a file."""
    data = await store.get(key)

    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    await asyncio.to_thread(write)
    return path
