"""Claims of copies on finished runs, and the read position of events; shared by copies and kept over restarts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from fathom.core.call import bind
from fathom.core.errors import Conflict, CorruptData, FathomError
from fathom.core.ids import new_id
from fathom.transport.bus.base import KeyValue

POSITION = "read.position"


@dataclass
class Claim:
    """A finished run claimed by this copy; ``revision`` follows the copy's writes."""

    key: str
    revision: int


@dataclass(frozen=True)
class Held:
    """A run that another copy grades, or that is ``settled``; check again at ``until``, seconds since the epoch.

    ``is_own`` says that this copy has settled it.
    """

    until: float
    settled: bool = False
    is_own: bool = False


class Ledger:
    """Claims in a bucket, by compare-and-set. Raises ``NotReady`` while the bus is unreachable."""

    def __init__(self, keys: KeyValue, lease_s: float, clock: Callable[[], float] = time.time) -> None:
        """Create a ledger with a new holder id; ``clock`` returns seconds since the epoch."""
        self._keys, self._lease_s, self._clock = keys, lease_s, clock
        self._holder = new_id("grader")

    async def position(self) -> int:
        """Return the sequence up to which every event has been processed."""
        entry = await self._keys.get(POSITION)
        return int(entry.value) if entry is not None and entry.value else 0

    async def move(self, position: int) -> None:
        """Move the position forward; leave it when another copy has moved it further."""
        entry = await self._keys.get(POSITION)
        present = int(entry.value) if entry is not None and entry.value else 0
        if position > present:
            # Whoever was faster will move it again; what is read twice is found settled.
            with suppress(Conflict):
                revision = entry.revision if entry is not None and entry.value else 0
                await self._keys.put(POSITION, str(position).encode(), revision=revision)

    async def claim(self, run_id: str, leg: int) -> Claim | Held:
        """Claim the end of a run's attempt, unless it is settled or another copy holds it."""
        claim, known = await self._read_entry(run_id, leg)
        if known is not None:
            if known["settled"]:
                return Held(0.0, settled=True, is_own=known["holder"] == self._holder)
            # By the wall clock, which copies on several machines share roughly; a lease of minutes makes the
            # difference harmless, and compare-and-set decides where two think it is free.
            if known["holder"] != self._holder and float(known["until"]) > self._clock():
                return Held(float(known["until"]))
        try:
            await self.renew(claim)
        except Conflict:
            # Another copy was faster by a moment; its lease has just begun.
            return Held(self._clock() + self._lease_s)
        return claim

    async def _read_entry(self, run_id: str, leg: int) -> tuple[Claim, dict[str, str | float | bool] | None]:
        """Return an unwritten claim and the stored entry of an end, None if there is none."""
        key = f"ends.{bind(run_id)}.{leg}"
        entry = await self._keys.get(key)
        if entry is None or entry.value is None:
            return Claim(key, 0), None
        return Claim(key, entry.revision), read(key, entry.value)

    async def renew(self, claim: Claim) -> None:
        """Extend the claim by another lease; raise ``Conflict`` when another copy has taken it."""
        await self._put(claim, self._clock() + self._lease_s)

    async def settle(self, claim: Claim) -> None:
        """Mark the end as graded for good; raise ``Conflict`` when another copy has taken it."""
        await self._put(claim, 0.0, settled=True)

    async def release(self, claim: Claim) -> None:
        """Give up the claim to the next copy."""
        # The claim runs out by itself if this cannot be written.
        with suppress(FathomError):
            await self._put(claim, 0.0)

    async def _put(self, claim: Claim, until: float, *, settled: bool = False) -> None:
        value = json.dumps({"holder": self._holder, "until": until, "settled": settled})
        claim.revision = await self._keys.put(claim.key, value.encode(), revision=claim.revision)


def read(key: str, value: bytes) -> dict[str, str | float | bool]:
    """Parse an entry of the bucket; raise ``CorruptData``."""
    try:
        found: dict[str, str | float | bool] = json.loads(value)
        return {name: found[name] for name in ("holder", "until", "settled")}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(key, str(error)) from error
