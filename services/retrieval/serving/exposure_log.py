"""Log of documents shown to each run, shared by replicas and kept over restarts in the bus bucket ``SEEN``.

An entry per run holds keys of ids, 8 bytes each, oldest first. It is written before a search is answered, so an id is
refused only when no search has shown it to the run. Limits: ``MAX_SEEN`` ids per run, then the oldest are dropped; the
bucket drops a run that has seen nothing new for days, and the oldest runs when there are too many. Two ids with the
same key (probability 1 in 10^19) would grant access to each other, never deny it.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from fathom.core.cache import BoundedCache
from fathom.core.call import bind
from fathom.core.errors import Conflict, CorruptData
from fathom.core.ids import sha256
from fathom.core.retry import Retries, RetryPolicy, always
from fathom.services.retrieval.documents.model import hash64
from fathom.transport.bus.base import KeyValue

# Runs held in memory per process, and ids per run; a bucket value has at most 64 KiB.
MAX_RUNS, MAX_SEEN = 4_096, 8_000
KEY_BYTES = 8
# A key costs an entry of a dict and an integer, about 100 bytes; a run with nothing shown costs its lock and its name.
BYTES_PER_KEY, BYTES_PER_RUN, MAX_BYTES = 100, 1_000, 64 * 1024 * 1024
# Replicas that write one run at once retry by turns: sixteen cover as many writers with room to spare.
TURNS = RetryPolicy(attempts=16, first_delay_s=0.02, max_delay_s=0.16)


@dataclass
class RunExposure:
    """Keys shown to one run, as known to this process; ``revision`` is that of the entry they were read from."""

    keys: dict[int, None] = field(default_factory=dict)
    revision: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ExposureLog:
    """Exposure log for one event loop. Without a bucket it is kept in memory only."""

    def __init__(self, bucket: KeyValue | None = None) -> None:
        self._bucket = bucket
        # Without an age: the bucket's own lifetime of a run decides.
        self._runs = BoundedCache[str, RunExposure](max_entries=MAX_RUNS, max_bytes=MAX_BYTES, ttl_s=math.inf)

    async def record(self, run: str, ids: Iterable[str]) -> None:
        """Record that the run has seen these ids; return when stored. Costs nothing when all are known.

        Raises ``NotReady`` while the bus does not confirm, ``Conflict`` under constant concurrent writes.
        """
        fresh, known = [hash64(ident) for ident in ids], self._get_run(run)
        async with known.lock:
            if all(key in known.keys for key in fresh):
                return
            if self._bucket is None:
                self._hold(run, known, merge_keys(known.keys, fresh))
                return
            retries = Retries(TURNS, is_retryable=always)
            while True:
                wanted = merge_keys(known.keys, fresh)
                try:
                    known.revision = await self._bucket.put(make_key(run), pack(wanted), revision=known.revision)
                except Conflict:
                    crowd = Conflict(f"what run {run[:80]!r} has seen is being written by many at once")
                    delay = retries.next_delay_s(crowd)
                    # The first time only what this replica knew was old; then others are writing right now.
                    if retries.failures > 1:
                        await asyncio.sleep(delay)
                    await self._read(run, known)
                else:
                    self._hold(run, known, wanted)
                    return

    async def list_seen(self, run: str, ids: Sequence[str]) -> Collection[int]:
        """Return the keys (``hash64``) of what the run has seen, reread if one of ``ids`` is unknown here.

        Raises ``NotReady`` while the bus does not answer, ``CorruptData`` for a malformed entry.
        """
        known = self._get_run(run)
        # Another replica may have shown what this one does not know; what is known here needs no question.
        if self._bucket is not None and not all(hash64(ident) in known.keys for ident in ids):
            async with known.lock:
                await self._read(run, known)
        return known.keys

    async def _read(self, run: str, known: RunExposure) -> None:
        assert self._bucket is not None
        entry = await self._bucket.get(make_key(run))
        if entry is None or entry.value is None:  # nothing yet, or the bucket has forgotten it
            known.revision = 0
            return
        known.revision = entry.revision
        self._hold(run, known, merge_keys(unpack(entry.value, entry.key), known.keys))

    def _get_run(self, run: str) -> RunExposure:
        # As in the bucket: another tenant may have a run of this name.
        name = make_key(run)
        known = self._runs.get(name)
        if known is None:
            known = RunExposure()
            self._hold(run, known, known.keys)
        return known

    def _hold(self, run: str, known: RunExposure, keys: dict[int, None]) -> None:
        """Replace the keys of a run, and count them."""
        known.keys = keys
        self._runs.put(make_key(run), known, BYTES_PER_RUN + BYTES_PER_KEY * len(keys))


def make_key(run: str) -> str:
    """Return the key in the bucket of a run of the current call's tenant."""
    # Hashed: names of runs are arbitrary, while keys of the bus allow few characters.
    return bind(sha256(run.encode()))


def merge_keys(older: Iterable[int], newer: Iterable[int]) -> dict[int, None]:
    """Merge two key sets, each key once, the newer ones last; drop the oldest above the limit."""
    keys = dict.fromkeys(older)
    for key in newer:
        # Moved to the end: what was shown again is dropped last.
        keys.pop(key, None)
        keys[key] = None
    for key in list(keys)[:-MAX_SEEN]:
        del keys[key]
    return keys


def pack(keys: Iterable[int]) -> bytes:
    # In the machine's byte order, which is little-endian on every platform that this runs on.
    return array("Q", keys).tobytes()


def unpack(value: bytes, key: str) -> array[int]:
    if len(value) % KEY_BYTES:
        raise CorruptData(key, f"has {len(value)} bytes")
    found = array("Q")
    found.frombytes(value)
    return found
