"""Bus and object store as a running service sees them: within reach, or away for longer than a restart takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from fathom.core.errors import FathomError
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import PROBES
from fathom.transport.store.base import ObjectStore
from fathom.transport.store.startup import PROBE_KEY

EVERY_S = 5.0
TIMEOUT_S = 5.0
# A server of either that restarts is back within these, and callers wait for it; what lasts longer is to be said.
MISSES = 3


class Reach:
    """Asks bus and store for what is not there, which both answer at once, and counts the misses in a row."""

    def __init__(
        self,
        bus: Bus,
        store: ObjectStore,
        log: Any,
        *,
        every_s: float = EVERY_S,
        timeout_s: float = TIMEOUT_S,
        misses: int = MISSES,
    ) -> None:
        self._bus, self._store, self._log = bus, store, log
        self._every_s, self._timeout_s, self._allowed = every_s, timeout_s, misses
        self._missed = {"bus": 0, "object store": 0}
        self.is_there = True

    async def wait_for_change(self) -> bool:
        """Return whether both are within reach, as soon as that is another answer than before."""
        while True:
            # The start has just reached both.
            await asyncio.sleep(self._every_s)
            await self.ask()
            is_there = max(self._missed.values()) < self._allowed
            if is_there != self.is_there:
                self.is_there = is_there
                return is_there

    async def ask(self) -> None:
        """Ask each once."""
        await asyncio.gather(
            self._ask_one("bus", self._bus.bucket(PROBES).get("reach")),
            self._ask_one("object store", self._store.head(PROBE_KEY)),
        )

    async def _ask_one(self, name: str, question: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await question
        except TimeoutError:
            self._count_miss(name, f"no answer in {self._timeout_s:g} s")
        except FathomError as error:
            self._count_miss(name, error.message)
        else:
            self._missed[name] = 0

    def _count_miss(self, name: str, said: str) -> None:
        self._missed[name] += 1
        self._log.warning(f"the {name} is out of reach", error=said, misses=self._missed[name])
