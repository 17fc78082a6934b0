"""Lifetimes of imported sheets: which are deleted when, and how many bytes they may have together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fathom.core.errors import FailedPrecondition
from fathom.transport.store import ObjectStore

PREFIX = "lifetimes/"
# All that the service writes of a sheet, its description first: whoever finds that finds the data too.
KEYS = ("tables/{}.pb", "tables/{}.parquet", "exports/{}.csv", "exports/{}.xlsx")


@dataclass(frozen=True)
class Lifetime:
    """A sheet that is deleted at ``end``, in seconds since the epoch; ``size`` is that of its data in bytes."""

    end: int
    size: int
    sheet_id: str

    @property
    def key(self) -> str:
        """Return its key in the store, which says all of it: reading the list reads no object."""
        return f"{PREFIX}{self.end:012d}/{self.size:012d}-{self.sheet_id}"


def read_key(key: str) -> Lifetime:
    """Return the lifetime of a key."""
    end, _, rest = key.removeprefix(PREFIX).partition("/")
    size, _, sheet_id = rest.partition("-")
    return Lifetime(int(end), int(size), sheet_id)


@dataclass
class Lifetimes:
    """Record of sheets with a lifetime in the object store, shared by all replicas."""

    store: ObjectStore
    max_bytes: int
    now: Callable[[], float] = time.time

    async def admit(self, size: int) -> None:
        """Delete what is over, then raise ``FailedPrecondition`` if there is no room for so many bytes more."""
        live = await self.sweep()
        if sum(one.size for one in live) + size > self.max_bytes:
            ends = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(live[0].end)) if live else "never"
            raise FailedPrecondition(
                f"imported tables may have {self.max_bytes:,} bytes together; the first of them is deleted: {ends}"
            )

    async def note(self, sheet_id: str, size: int, lifetime_s: int) -> None:
        """Record that a sheet is to be deleted after so many seconds; a sheet that is imported again lives on."""
        await self.store.put(Lifetime(int(self.now()) + lifetime_s, size, sheet_id).key, b"")

    async def sweep(self) -> Sequence[Lifetime]:
        """Delete the sheets whose last lifetime is over; return the others, the first to end in front."""
        known = [read_key(key) for key in await self.store.keys(PREFIX)]
        live = [one for one in known if one.end > self.now()]
        used = {one.sheet_id for one in live}
        for one in known[: len(known) - len(live)]:
            for key in KEYS if one.sheet_id not in used else ():
                await self.store.delete(key.format(one.sheet_id))
            # Last: a sweep that was cut short is repeated.
            await self.store.delete(one.key)
        return live
