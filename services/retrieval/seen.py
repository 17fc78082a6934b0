"""Log of documents shown to each run, shared by replicas and kept over restarts in the bus bucket ``SEEN``.

An entry per run holds keys of ids, 8 bytes each, oldest first. It is written before a search is answered, so an id is
refused only when no search has shown it to the run. Limits: ``MAX_SEEN`` ids per run, then the oldest are dropped; the
bucket drops a run that has seen nothing new for days, and the oldest runs when there are too many. Two ids with the
same key (probability 1 in 10^19) would grant access to each other, never deny it.
"""

from __future__ import annotations

import asyncio
import random
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from fathom.bus.base import KeyValue
from fathom.errors import Conflict, CorruptData
from fathom.ids import sha256
from services.retrieval.corpus import key64

MAX_RUNS, MAX_SEEN = 4_096, 8_000
"""Runs held in memory per process, and ids per run; a bucket value has at most 64 KiB."""
KEY_BYTES = 8
ATTEMPTS, PAUSE_S = 16, 0.02


@dataclass
class Shown:
    """Keys shown to one run, as known to this process; ``revision`` is that of the entry they were read from."""

    keys: dict[int, None] = field(default_factory=dict)
    revision: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Seen:
    """Exposure log for one event loop. Without a bucket it is kept in memory only."""

    def __init__(self, bucket: KeyValue | None = None) -> None:
        self._bucket = bucket
        self._runs: OrderedDict[str, Shown] = OrderedDict()

    async def show(self, run: str, ids: Iterable[str]) -> None:
        """Record that the run has seen these ids; return when stored. Costs nothing when all are known.

        Raises ``NotReady`` while the bus does not confirm, ``Conflict`` under constant concurrent writes.
        """
        fresh, known = [key64(ident) for ident in ids], self._known(run)
        async with known.lock:
            if all(key in known.keys for key in fresh):
                return
            if self._bucket is None:
                known.keys = joined(known.keys, fresh)
                return
            for attempt in range(ATTEMPTS):
                wanted = joined(known.keys, fresh)
                try:
                    known.revision = await self._bucket.put(key_of(run), packed(wanted), revision=known.revision)
                except Conflict:
                    if attempt:
                        await asyncio.sleep(random.uniform(0, PAUSE_S * attempt))  # noqa: S311 - spreads writers
                    await self._read(run, known)
                else:
                    known.keys = wanted
                    return
        raise Conflict(f"what run {run[:80]!r} has seen is being written by many at once")

    async def among(self, run: str, ids: Sequence[str]) -> Collection[int]:
        """Return the keys (``key64``) of what the run has seen, reread if one of ``ids`` is unknown here.

        Raises ``NotReady`` while the bus does not answer, ``CorruptData`` for a malformed entry.
        """
        known = self._known(run)
        if self._bucket is not None and not all(key64(ident) in known.keys for ident in ids):
            async with known.lock:
                await self._read(run, known)
        return known.keys

    async def _read(self, run: str, known: Shown) -> None:
        assert self._bucket is not None
        entry = await self._bucket.get(key_of(run))
        if entry is None or entry.value is None:  # nothing yet, or the bucket has forgotten it
            known.revision = 0
            return
        known.revision, known.keys = entry.revision, joined(unpacked(entry.value, entry.key), known.keys)

    def _known(self, run: str) -> Shown:
        known = self._runs.setdefault(run, Shown())
        self._runs.move_to_end(run)
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        return known


def key_of(run: str) -> str:
    """Return the run's key in the bucket, hashed since run names are arbitrary."""
    return sha256(run.encode())


def joined(older: Iterable[int], newer: Iterable[int]) -> dict[int, None]:
    """Merge two key sets, each key once, the newer ones last; drop the oldest above the limit."""
    keys = dict.fromkeys(older)
    for key in newer:
        keys.pop(key, None)
        keys[key] = None
    for key in list(keys)[:-MAX_SEEN]:
        del keys[key]
    return keys


def packed(keys: Iterable[int]) -> bytes:
    return array("Q", keys).tobytes()


def unpacked(value: bytes, key: str) -> array[int]:
    if len(value) % KEY_BYTES:
        raise CorruptData(key, f"has {len(value)} bytes")
    found = array("Q")
    found.frombytes(value)
    return found
