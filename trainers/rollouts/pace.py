"""Rate limiter for episode starts: backends behind the tools have rate limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass
class Pace:
    """Limits starts to ``per_s`` per second on average, first come first served; 0 is unlimited."""

    per_s: float
    _free_at: float = field(default=0.0, init=False)

    async def wait(self, count: int) -> None:
        """Wait until ``count`` more episodes may start."""
        if not self.per_s:
            return
        now = asyncio.get_running_loop().time()  # the clock that the sleep below follows
        # The slot is reserved before sleeping: callers that wait at the same time get consecutive slots. Time that was
        # not used is not saved up, so that there is no burst after a pause.
        begin = max(now, self._free_at)
        self._free_at = begin + count / self.per_s
        await asyncio.sleep(begin - now)
