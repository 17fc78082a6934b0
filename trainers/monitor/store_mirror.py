"""Copy of a training's report data in the object store, kept up to date while it trains.

The gateway's page and ``fathom report`` read it there (``fathom.domain.training_report``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from fathom.core.errors import FathomError, NotFound
from fathom.domain.replacing import write_whole
from fathom.domain.training_report.about import (
    ABOUT,
    LINES,
    METRICS,
    PREFIX,
    RUNNING,
    SAMPLES,
    About,
    about_key,
    piece_key,
    read_about,
    sample_key,
)
from fathom.trainers.monitor.report import sample_name
from fathom.trainers.monitor.samples import sample_steps
from fathom.transport.store import ObjectStore

EVERY_S = 10.0
"""Seconds between uploads: what a killed pod loses of its curves, and by how much the page is behind."""
LAST_S = 60.0
"""Time limit of the last upload, so that a store that hangs does not keep a finished training from ending."""
JSON, JSON_LINES = "application/json", "application/jsonl"
Start = Callable[[Coroutine[Any, Any, None]], "Future[None]"]


class StoreMirror:
    """Uploads of one training's folder, in the background; one that fails is made up for by the next."""

    def __init__(
        self, store: ObjectStore, start: Start, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare uploads of ``folder``; ``start`` schedules a coroutine and returns its future."""
        self._store, self._start, self._folder, self._clock = store, start, folder, clock
        self._name = folder.name
        self._running: Future[None] | None = None
        self._next = clock()
        self._piece, self._offset = 0, 0
        self._sent_bytes = 0
        self._samples: set[int] = set()
        self._gone: set[int] = set()
        self._is_first = True

    def update(self, about: About) -> None:
        """Begin an upload if one is due and none is under way."""
        if self._clock() < self._next or (self._running is not None and not self._running.done()):
            return
        self._next = self._clock() + EVERY_S
        self._running = self._start(self._upload(about))

    def finish(self, about: About) -> None:
        """Upload what is left, waiting at most ``LAST_S`` seconds."""
        for work in (None, about):
            if work is not None:
                self._running = self._start(self._upload(work))
            if self._running is not None:
                # The training's own end matters more than its curves.
                with suppress(FathomError, TimeoutError):
                    self._running.result(LAST_S)

    async def _upload(self, about: About) -> None:
        with suppress(FathomError):
            if self._is_first:
                await self._drop_others()
            await self._send_metrics()
            await self._send_samples()
            if about.state != RUNNING:
                await self._send_samples()
            # Last: a reader takes it that the lines which it names are there.
            await self._store.put(about_key(self._name), about.to_json(), JSON)
            self._is_first = False

    async def _send_metrics(self) -> None:
        """Upload the pieces of ``metrics.jsonl`` that have grown."""
        path = self._folder / METRICS
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        for start in range(0, len(lines), LINES):
            part = lines[start : start + LINES]
            content = b"".join(part)
            if start or len(content) != self._sent_bytes:
                await self._store.put(piece_key(self._name, self._piece), content, JSON_LINES)
                self._sent_bytes = len(content)
            if len(part) == LINES:
                self._piece, self._offset, self._sent_bytes = self._piece + 1, self._offset + len(content), 0

    async def _send_samples(self) -> None:
        """Upload new samples, and delete those that are no longer kept."""
        folder = self._folder / SAMPLES
        kept = set(sample_steps(path.name for path in folder.glob("*.json")))
        for step in sorted(kept - self._samples):
            await self._store.put(sample_key(self._name, step), (folder / sample_name(step)).read_bytes(), JSON)
        # One upload later: a page that was given the list of before may ask for them still.
        for step in sorted(self._gone - kept):
            await self._store.delete(sample_key(self._name, step))
        self._gone, self._samples = self._samples - kept, kept

    async def _drop_others(self) -> None:
        """Delete what an earlier training of this name has left beyond what this folder has."""
        path = self._folder / METRICS
        lines = path.read_bytes().count(b"\n") if path.exists() else 0
        for key in await self._store.keys(f"{PREFIX}/{self._name}/metrics/"):
            if key >= piece_key(self._name, -(-lines // LINES)):
                await self._store.delete(key)
        for key in await self._store.keys(f"{PREFIX}/{self._name}/{SAMPLES}/"):
            if not (self._folder / SAMPLES / key.rpartition("/")[2]).exists():
                await self._store.delete(key)


async def find_other(store: ObjectStore, about: About) -> bool:
    """Return whether the store has another training of this name."""
    key = about_key(about.name)
    try:
        return read_about(key, await store.get(key)).training_id != about.training_id
    except NotFound:
        return False


async def restore_folder(store: ObjectStore, folder: Path) -> None:
    """Download the report data of a training's earlier attempts, which ran on another disk; nothing without any."""
    name = folder.name
    if await store.head(about_key(name)) is None:
        return
    for key in await store.keys(f"{PREFIX}/{name}/{SAMPLES}/"):
        await asyncio.to_thread(write_whole, folder / SAMPLES / key.rpartition("/")[2], await store.get(key))
    pieces = [await store.get(key) for key in sorted(await store.keys(f"{PREFIX}/{name}/metrics/"))]
    await asyncio.to_thread(write_whole, folder / ABOUT, await store.get(about_key(name)))
    # Last, since its presence says that there is nothing to restore.
    await asyncio.to_thread(write_whole, folder / METRICS, b"".join(pieces))
