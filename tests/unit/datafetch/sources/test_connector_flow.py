"""Lanes and the shared cache, by a clock of the test's own."""

from __future__ import annotations

import asyncio
import time

import pytest

from fathom.core.errors import DeadlineExceeded, DependencyFailed, InvalidField, NotFound, Overloaded
from fathom.services.datafetch.sources.cache import SharedCache
from fathom.services.datafetch.sources.flow import CircuitOpen, Lane, LanePolicy
from tests.support.clock import Clock, loop_time, simulate_time

FAST = LanePolicy(concurrency=2, per_second=1e6, failures=3, open_s=30)


async def fails() -> None:
    raise DependencyFailed("vendor", "down")


async def works() -> str:
    return "here"


async def test_concurrency_is_bounded() -> None:
    lane, running, most = Lane("vendor", FAST), 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await asyncio.gather(*(lane.run(work) for _ in range(10)))
    assert most == 2
    assert lane.counts.started == 10


@simulate_time
async def test_calls_keep_their_distance() -> None:
    lane, begun = Lane("vendor", LanePolicy(concurrency=4, per_second=50), loop_time), list[float]()

    async def work() -> None:
        begun.append(loop_time())

    await asyncio.gather(*(lane.run(work) for _ in range(6)))
    # Fifty per second are one every 0.02 s, although four places are free: the rate binds, not the places.
    assert begun == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08, 0.1])


async def test_a_turn_after_the_deadline_is_refused_at_once() -> None:
    # A turn every ten seconds: the second comes too late for somebody who has one, and the refusal says when it comes.
    lane = Lane("vendor", LanePolicy(per_second=0.1))
    await lane.run(works)
    with pytest.raises(Overloaded) as overloaded:
        await lane.run(works, time.monotonic() + 1)
    assert 8 < (overloaded.value.retry_after_s or 0) <= 10


async def test_waiting_for_a_place_ends_with_the_deadline() -> None:
    lane, release = Lane("vendor", LanePolicy(concurrency=1, per_second=1e6)), asyncio.Event()
    first = asyncio.ensure_future(lane.run(release.wait))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="places"):
        await lane.run(works, time.monotonic() + 0.05)
    release.set()
    await first
    assert await lane.run(works) == "here"


async def test_the_circuit_opens_tries_and_closes() -> None:
    clock = Clock()
    lane = Lane("vendor", FAST, clock)
    for _ in range(3):
        with pytest.raises(DependencyFailed):
            await lane.run(fails)
    with pytest.raises(CircuitOpen) as opened:
        await lane.run(works)
    assert opened.value.culprit == "vendor"
    # A second past open_s one call may try; it fails, so that the next one is refused at once again.
    clock.now += 31
    with pytest.raises(DependencyFailed, match="down"):
        await lane.run(fails)
    with pytest.raises(CircuitOpen):
        await lane.run(works)
    clock.now += 31
    # The trial succeeds and forgets the three failures: one more failure alone does not open the circuit.
    assert await lane.run(works) == "here"
    with pytest.raises(DependencyFailed, match="down"):
        await lane.run(fails)
    assert await lane.run(works) == "here"
    assert lane.counts.refused == 2


async def test_half_open_lets_one_call_try() -> None:
    clock, release, started = Clock(), asyncio.Event(), 0
    lane = Lane("vendor", FAST, clock)
    for _ in range(3):
        with pytest.raises(DependencyFailed):
            await lane.run(fails)
    clock.now += 31

    async def slow() -> None:
        nonlocal started
        started += 1
        await release.wait()

    trial = asyncio.ensure_future(lane.run(slow))
    await asyncio.sleep(0)
    # The trial is still under way: whoever else comes would press a vendor that may not be back.
    with pytest.raises(CircuitOpen):
        await lane.run(slow)
    release.set()
    await trial
    assert started == 1


async def test_the_callers_mistakes_open_no_circuit() -> None:
    lane = Lane("vendor", FAST)

    # As many as would open the circuit three times over: a vendor that refuses nonsense is well.
    async def mistaken() -> None:
        raise InvalidField("symbol", "is none")

    for _ in range(10):
        with pytest.raises(InvalidField):
            await lane.run(mistaken)
    assert lane.counts.failed == 0


def cache(clock: Clock | None = None, limit: int = 1_000) -> SharedCache[str]:
    return SharedCache(len, limit, clock=clock or Clock())


async def test_eight_at_a_time_make_one_call_and_a_ninth_none() -> None:
    shared, calls, release = cache(), 0, asyncio.Event()

    async def load() -> str:
        nonlocal calls
        calls += 1
        await release.wait()
        return "answer"

    asking = [asyncio.ensure_future(shared.get("k", load, 10, None, "vendor")) for _ in range(8)]
    await asyncio.sleep(0)
    # All eight stand at the key before the vendor has answered the first.
    release.set()
    assert await asyncio.gather(*asking) == ["answer"] * 8
    assert await shared.get("k", load, 10, None, "vendor") == "answer"
    assert calls == 1
    assert (shared.counts.calls, shared.counts.shared, shared.counts.hits) == (1, 7, 1)


async def test_answers_age_and_the_oldest_make_room() -> None:
    clock = Clock()
    # Answers are four bytes long: two fit into ten, a third makes room by what was read longest ago.
    shared = cache(clock, limit=10)

    async def load() -> str:
        return "xxxx"

    for key in ("a", "b"):
        await shared.get(key, load, 10, None, "vendor")
    # Read again, "a" is the newer one when "c" comes, and "b" goes.
    await shared.get("a", load, 10, None, "vendor")
    await shared.get("c", load, 10, None, "vendor")
    assert shared.size_bytes == 8
    calls = shared.counts.calls
    await shared.get("a", load, 10, None, "vendor")
    assert shared.counts.calls == calls
    await shared.get("b", load, 10, None, "vendor")
    assert shared.counts.calls == calls + 1
    # A second past the ten that an answer lives.
    clock.now += 11
    await shared.get("b", load, 10, None, "vendor")
    assert shared.counts.calls == calls + 2


async def test_failures_are_shared_but_not_kept_and_absence_is() -> None:
    shared, calls = cache(), 0

    async def load() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        if calls == 1:
            raise DependencyFailed("vendor", "down")
        raise NotFound("series", "X")

    outcomes = await asyncio.gather(
        *(shared.get("k", load, 10, None, "vendor") for _ in range(4)), return_exceptions=True
    )
    assert all(isinstance(outcome, DependencyFailed) for outcome in outcomes)
    for _ in range(3):
        with pytest.raises(NotFound):
            await shared.get("k", load, 10, None, "vendor")
    # One for the four that shared the failure; one for the absence, which the later two read from the cache.
    assert calls == 2


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    shared, release = cache(), asyncio.Event()

    async def load() -> str:
        await release.wait()
        return "answer"

    leader = asyncio.ensure_future(shared.get("k", load, 10, None, "vendor"))
    await asyncio.sleep(0)
    follower = asyncio.ensure_future(shared.get("k", load, 10, None, "vendor"))
    await asyncio.sleep(0)
    # The call was begun by the leader, and must not end with it.
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    release.set()
    assert await follower == "answer"


async def test_a_call_that_nobody_waits_for_ends() -> None:
    shared, ended = cache(), asyncio.Event()

    async def load() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    with pytest.raises(DeadlineExceeded):
        await shared.get("k", load, 10, time.monotonic() + 0.05, "vendor")
    await asyncio.wait_for(ended.wait(), 5)


async def test_a_follower_with_more_time_makes_the_next_call() -> None:
    shared, calls = cache(), 0

    async def load() -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        if calls == 1:
            raise DeadlineExceeded("vendor did not answer in time")
        return "answer"

    first = asyncio.ensure_future(shared.get("k", load, 10, time.monotonic() + 5, "vendor"))
    await asyncio.sleep(0)
    # The first call had the leader's five seconds. Whoever has more makes a call of its own instead of failing with it.
    assert await shared.get("k", load, 10, time.monotonic() + 60, "vendor") == "answer"
    with pytest.raises(DeadlineExceeded):
        await first
    assert calls == 2
