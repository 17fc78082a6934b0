"""Number of requests that an upstream of unknown capacity takes at once, found by how long they take.

The algorithm is that of Netflix's concurrency-limits (Gradient): while requests take about as long as the fastest did,
the limit grows by a few; when they take longer than ``TOLERANCE`` times as long they queue somewhere, and it shrinks in
proportion. What the fastest took is measured anew from time to time, at half the limit, since upstreams change. A
request that the upstream drops shrinks the limit as TCP does.
"""

from __future__ import annotations

import math

# Half as long again is the noise of an upstream that does not queue.
TOLERANCE = 1.5
# No single look may halve the limit at once, nor forget what was known.
LEAST_GRADIENT, SMOOTHING = 0.5, 0.2
# Often enough to follow an upstream that changes within the hour; each time costs half of a turnover.
LOOKS_PER_PROBE = 200
DROP_FACTOR = 0.9


class GradientLimit:
    """Limit between two bounds that follows an upstream's latency. It begins at the geometric middle."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = float(min(least, most)), float(most)
        self._limit = math.sqrt(self._least * self._most)
        self._fastest_s, self._looks = math.inf, 0
        self._sum_s, self._count, self._busiest = 0.0, 0, 0

    @property
    def places(self) -> int:
        """Return how many requests may run at once."""
        return int(self._limit)

    def note(self, seconds: float, running: int, *, is_dropped: bool = False) -> None:
        """Take notice of a request that has ended; ``running`` counts it and those beside it."""
        if is_dropped:
            self._set(self._limit * DROP_FACTOR)
            return
        self._sum_s, self._count = self._sum_s + seconds, self._count + 1
        self._busiest = max(self._busiest, running)
        # One look per turnover: single durations differ by what was asked.
        if self._count >= self.places:
            self._look(self._sum_s / self._count, self._busiest)
            self._sum_s, self._count, self._busiest = 0.0, 0, 0

    def _look(self, seconds: float, running: int) -> None:
        self._looks += 1
        if self._looks % LOOKS_PER_PROBE == 0:
            self._fastest_s = math.inf
            self._set(self._limit / 2)
            return
        self._fastest_s = min(self._fastest_s, max(seconds, 1e-6))
        # What is not used cannot be judged: half of the places were free.
        if running < self._limit / 2:
            return
        gradient = min(1.0, max(LEAST_GRADIENT, TOLERANCE * self._fastest_s / max(seconds, 1e-6)))
        wanted = self._limit * gradient + math.sqrt(self._limit)
        self._set(self._limit + SMOOTHING * (wanted - self._limit))

    def _set(self, limit: float) -> None:
        self._limit = min(self._most, max(self._least, limit))
