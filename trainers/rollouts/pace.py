"""How fast episodes are begun: backends behind the tools have limits of their own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass
class Pace:
    """At most ``per_s`` beginnings per second on average, 0 for any number; who asks first goes first."""

    per_s: float
    _free_at: float = field(default=0.0, init=False)

    async def wait(self, count: int) -> None:
        """Waits for the turn of ``count`` beginnings."""
        if not self.per_s:
            return
        now = asyncio.get_running_loop().time()  # the clock that the sleep below follows
        begin = max(now, self._free_at)
        self._free_at = begin + count / self.per_s
        await asyncio.sleep(begin - now)
