"""Lifetimes of what users bring: what is deleted when, and how many bytes it may have together."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fathom.core.errors import FailedPrecondition
from fathom.transport.store.base import ObjectStore


@dataclass(frozen=True)
class Lifetime:
    """Something that is deleted at ``end``, in seconds since the epoch; ``size`` is that of its data in bytes."""

    end: int
    size: int
    name: str

    def make_key(self, prefix: str) -> str:
        """Return its key in the store, which says all of it: reading the list reads no object."""
        return f"{prefix}{self.end:012d}/{self.size:012d}-{self.name}"


def read_key(prefix: str, key: str) -> Lifetime:
    """Return the lifetime of a key."""
    end, _, rest = key.removeprefix(prefix).partition("/")
    size, _, name = rest.partition("-")
    return Lifetime(int(end), int(size), name)


@dataclass
class Lifetimes:
    """Record of things with a lifetime in the object store, shared by all replicas.

    ``prefix`` is that of its keys, ``what`` names the things in errors, and ``delete`` deletes one by its name.
    """

    store: ObjectStore
    prefix: str
    what: str
    max_bytes: int
    delete: Callable[[str], Awaitable[None]]
    now: Callable[[], float] = time.time

    async def admit(self, size: int) -> None:
        """Delete what is over, then raise ``FailedPrecondition`` if there is no room for so many bytes more."""
        live = await self.sweep()
        if sum(one.size for one in live) + size > self.max_bytes:
            ends = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(live[0].end)) if live else "never"
            raise FailedPrecondition(
                f"{self.what} may have {self.max_bytes:,} bytes together; the first of them is deleted: {ends}"
            )

    async def note(self, name: str, size: int, lifetime_s: int) -> None:
        """Record that something is to be deleted after so many seconds; what is noted again lives on."""
        await self.store.put(Lifetime(int(self.now()) + lifetime_s, size, name).make_key(self.prefix), b"")

    async def sweep(self) -> Sequence[Lifetime]:
        """Delete what has no lifetime left; return the others, the first to end in front."""
        known = [read_key(self.prefix, key) for key in await self.store.keys(self.prefix)]
        live = [one for one in known if one.end > self.now()]
        used = {one.name for one in live}
        for one in known[: len(known) - len(live)]:
            if one.name not in used:
                await self.delete(one.name)
            # Last: a sweep that was cut short is repeated.
            await self.store.delete(one.make_key(self.prefix))
        return live
