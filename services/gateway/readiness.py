"""Whether a question could be answered: the planner says so, and bus and store take a write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from fathom.bus.base import Bus
from fathom.bus.streams import PROBES
from fathom.clients import Clients
from fathom.errors import DependencyFailed, FathomError
from fathom.store import ObjectStore

TIMEOUT_S = 2.0
WRITTEN_S = 5.0
"""How long a write that went well speaks for the next ones: probes of many balancers cost one write."""
KEY = "gateway"


class Readiness:
    """Asks the planner's health each time and writes a byte to bus and store every ``WRITTEN_S`` seconds.

    A write, for a hung or full disk answers every read. The planner's tools are not asked for: that builds a stage.
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

    async def check(self) -> None:
        """Return when all three are well; raises the typed error that names which is not."""
        await self._clients.planner.ready(self._timeout_s)
        async with self._turn:  # who waited finds the outcome of the write before it
            if self._clock() >= self._written_until:
                await asyncio.gather(
                    confirmed("bus", self._bus.bucket(PROBES).put(KEY, b"1"), self._timeout_s),
                    confirmed("store", self._store.put(f"probes/{KEY}.txt", b"1", "text/plain"), self._timeout_s),
                )
                self._written_until = self._clock() + WRITTEN_S


async def confirmed(culprit: str, write: Awaitable[object], timeout_s: float) -> None:
    """Wait for a write; its own words stay out of the error, which anybody may read and which may name paths."""
    try:
        async with asyncio.timeout(timeout_s):
            await write
    except TimeoutError as error:
        raise DependencyFailed(culprit, f"did not confirm a write within {timeout_s:g} s") from error
    except FathomError as error:
        raise DependencyFailed(culprit, f"refused a write [{error.reason}]") from error
