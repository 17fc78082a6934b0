"""The number of places of an upstream whose capacity nobody knows follows its latency, between its bounds."""

from __future__ import annotations

import asyncio
import random

from fathom.core.admission import Admission, Claimant, Limits
from fathom.core.admission.gradient import GradientLimit
from tests.support.clock import pass_time, simulate_time


class Upstream:
    """Serves ``capacity`` requests at once, each in about a second; more of them take longer in proportion."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.running, self.most, self.served = capacity, 0, 0, 0

    async def serve(self, draw: random.Random) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await pass_time(draw.uniform(0.8, 1.2) * max(1.0, self.running / self.capacity))
        self.running -= 1
        self.served += 1


async def flood(admission: Admission, upstream: Upstream, seconds: float) -> float:
    """Ask as often as possible; return the requests served per second in the second half of the time."""
    loop, draw = asyncio.get_running_loop(), random.Random(7)
    ends = loop.time() + seconds

    async def ask() -> None:
        while loop.time() < ends:
            async with admission.admit(Claimant()):
                await upstream.serve(draw)

    async def count() -> int:
        await pass_time(seconds / 2)
        upstream.most = 0
        return upstream.served

    counting = asyncio.create_task(count())
    await asyncio.gather(*(ask() for _ in range(100)))
    return (upstream.served - await counting) / (seconds / 2)


@simulate_time
async def test_an_upstream_that_slows_down_gets_what_it_can_serve() -> None:
    admission, upstream = Admission("m", Limits(64, 200, least=2)), Upstream(8)
    per_second = await flood(admission, upstream, 600)
    # Half as many again as it serves at once, and a few more that look for more: not 64.
    assert 8 <= admission.places <= 20
    assert upstream.most <= 24
    assert per_second >= 0.9 * upstream.capacity


@simulate_time
async def test_an_upstream_that_becomes_faster_gets_more() -> None:
    admission, upstream = Admission("m", Limits(64, 200, least=2)), Upstream(4)
    await flood(admission, upstream, 300)
    before, upstream.capacity = admission.places, 40
    await flood(admission, upstream, 300)
    assert admission.places >= 3 * before


def test_what_is_not_used_is_not_judged_and_a_drop_shrinks_to_the_least_at_most() -> None:
    limit = GradientLimit(2, 32)
    assert limit.places == 8
    for _ in range(1_000):
        limit.note(1.0, 1)
    assert limit.places == 8
    limit.note(1.0, 8, is_dropped=True)
    assert limit.places == 7
    for _ in range(100):
        limit.note(1.0, 8, is_dropped=True)
    assert limit.places == 2
    for _ in range(10_000):
        limit.note(1.0, 32)
    assert limit.places == 32


@simulate_time
async def test_a_limit_that_is_known_does_not_adapt() -> None:
    admission, upstream = Admission("m", Limits(16, 200)), Upstream(8)
    await flood(admission, upstream, 60)
    assert (admission.places, upstream.most) == (16, 16)
