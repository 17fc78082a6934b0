"""Readiness of the gateway: the planner is healthy, and bus and object store accept a write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from fathom.clients import Clients
from fathom.core.errors import DependencyFailed, FathomError
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import PROBES
from fathom.transport.store import ObjectStore

# Below the usual timeout of load balancers, so that they receive the culprit and not their own timeout.
TIMEOUT_S = 2.0
# Seconds for which a successful write counts, so that the probes of many load balancers cost one write.
WRITTEN_S = 5.0
KEY = "gateway"
# Longer than a server of bus or store takes to restart, for which callers wait.
OUTAGE_S = 15.0


class Readiness:
    """Asks the planner's health each time and writes a byte to bus and store every ``WRITTEN_S`` seconds.

    It writes because a hung or full disk still answers reads. It does not list the planner's tools, which would build
    the resources of a run.
    """

    def __init__(
        self,
        clients: Clients,
        store: ObjectStore,
        bus: Bus,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients, self._store, self._bus = clients, store, bus
        self._timeout_s, self._clock = timeout_s, clock
        self._written_until = float("-inf")
        self._turn = asyncio.Lock()
        self._outage: FathomError | None = None
        self._out_since = self._out_until = float("-inf")

    async def check(self) -> None:
        """Return when all three are healthy; raise the typed error that names the one that is not."""
        await self._clients.planner.ready(self._timeout_s)
        async with self._turn:  # a caller that waited uses the outcome of the write before it
            if self._clock() >= self._written_until:
                await self._write()

    async def _write(self) -> None:
        """Write to bus and store; keep since when that fails."""
        try:
            await asyncio.gather(
                require_write("bus", self._bus.bucket(PROBES).put(KEY, b"1"), self._timeout_s),
                require_write("store", self._store.put(f"probes/{KEY}.txt", b"1", "text/plain"), self._timeout_s),
            )
        except FathomError as error:
            now = self._clock()
            if now > self._out_until:
                self._out_since = now
            self._outage, self._out_until = error, now + OUTAGE_S
            raise
        self._outage, self._written_until = None, self._clock() + WRITTEN_S

    def require_no_outage(self) -> None:
        """Raise the error of bus or store if the probes of the last seconds found it away, and for long.

        Whoever begins something then learns it at once, instead of waiting for what does not come.
        """
        now = self._clock()
        if self._outage is not None and now <= self._out_until and now - self._out_since >= OUTAGE_S:
            raise self._outage


async def require_write(culprit: str, write: Awaitable[object], timeout_s: float) -> None:
    """Wait for a write; leave the cause out of the error, which is public and could name paths."""
    try:
        async with asyncio.timeout(timeout_s):
            await write
    except TimeoutError as error:
        raise DependencyFailed(culprit, f"did not confirm a write within {timeout_s:g} s") from error
    except FathomError as error:
        raise DependencyFailed(culprit, f"refused a write [{error.reason}]") from error
