"""Displays of sessions in the object store: bounded per session, and removed with it or when its time is over.

Their keys say until when they are kept, so that any replica can remove what another has left.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fathom.core.call import DEFAULT_TENANT, Call, calling
from fathom.core.errors import FathomError
from fathom.core.ids import sha256
from fathom.core.retry import run_round
from fathom.transport.store import ObjectStore
from fathom.transport.store.base import StoredObject
from fathom.transport.store.tenant import TenantStore, list_tenants

PREFIX = "displays/"
# Eight cells that display all that a cell may.
MAX_SESSION_BYTES = 64 << 20
# Sessions whose displays are known here: the keys of some thousand displays each.
MAX_SESSIONS = 10_000
# A reader that has begun before the end of a session may still fetch what it was shown.
READ_S = 600.0
SWEEP_S = 600.0


@dataclass
class SessionDisplays:
    """Displays of one session: until when they are kept, in seconds since 1970, and their sizes by key."""

    expires_at: int
    sizes: dict[str, int] = field(default_factory=dict)


class DisplayStore:
    """Keeper of the displays that travel by reference."""

    def __init__(self, store: ObjectStore, lifetime_s: float, clock: Callable[[], float] = time.time) -> None:
        """Create over the whole store, for sessions that live ``lifetime_s`` seconds at most."""
        self._whole, self._store = store, TenantStore(store)
        self._lifetime_s, self._clock = lifetime_s, clock
        self._sessions: OrderedDict[str, SessionDisplays] = OrderedDict()
        self._sweeping: asyncio.Task[None] | None = None

    def start(self, report: Callable[[FathomError], None]) -> None:
        """Remove what is over its time, now and from time to time; ``report`` is called with what fails."""
        self._sweeping = asyncio.create_task(self._sweep_for_ever(report))

    async def close(self) -> None:
        """Stop removing."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def put(self, session_id: str, data: bytes, media_type: str) -> StoredObject | None:
        """Store a display of a session of the calling tenant; return None when the session has displayed too much."""
        displays = self._sessions.get(session_id)
        if displays is None:
            expires_at = int(self._clock() + self._lifetime_s + READ_S)
            displays = self._sessions[session_id] = SessionDisplays(expires_at)
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        # By content: the same picture takes one place.
        key = f"{PREFIX}{displays.expires_at}/{session_id}/{sha256(data)}"
        if key not in displays.sizes and sum(displays.sizes.values()) + len(data) > MAX_SESSION_BYTES:
            return None
        displays.sizes[key] = len(data)
        return await self._store.put(key, data, media_type)

    async def forget(self, session_id: str) -> None:
        """Remove the displays of a session of the calling tenant that was closed; what fails now is swept later."""
        displays = self._sessions.pop(session_id, None)
        for key in displays.sizes if displays is not None else ():
            with suppress(FathomError):
                await self._store.delete(key)

    async def _sweep_for_ever(self, report: Callable[[FathomError], None]) -> None:
        while True:
            # A store that is away is no reason to end: the next round finds the same.
            await run_round(self.sweep, report)
            await asyncio.sleep(SWEEP_S)

    async def sweep(self) -> int:
        """Remove the displays of all tenants whose time is over; return their number."""
        removed = 0
        for tenant in (DEFAULT_TENANT, *await list_tenants(self._whole)):
            with calling(Call.new(tenant=tenant)):
                for key in await self._store.keys(PREFIX):
                    if is_over(key, self._clock()):
                        await self._store.delete(key)
                        removed += 1
        return removed


def is_over(key: str, now: float) -> bool:
    """Return whether the time in a key has passed; True for keys without one, which earlier versions wrote."""
    until = key.removeprefix(PREFIX).partition("/")[0]
    return not until.isdecimal() or int(until) < now
