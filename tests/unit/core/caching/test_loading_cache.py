"""The loading cache: one computation for concurrent callers, bounds, and cancelled callers that harm nobody else."""

from __future__ import annotations

import asyncio

import pytest

from fathom.core.cache import LoadingCache, observe_cache


def cache(entries: int = 4, size_bytes: int = 400) -> LoadingCache[str | int, str]:
    return LoadingCache(max_entries=entries, max_bytes=size_bytes, size_of=len, max_entry_bytes=size_bytes // 4)


async def answer(gate: asyncio.Event | None = None, text: str = "x") -> str:
    if gate is not None:
        await gate.wait()
    return text


async def test_a_group_of_eight_computes_once() -> None:
    gate, shared = asyncio.Event(), cache()
    group = [asyncio.create_task(shared.get("q", lambda: answer(gate))) for _ in range(8)]
    # One round: all eight have asked before anything is computed.
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*group) == ["x"] * 8
    assert await shared.get("q", answer) == "x"
    # One load, seven that joined it, and one that found the value.
    assert (shared.loads, shared.joined, shared.hits) == (1, 7, 1)


async def test_a_cancelled_caller_leaves_the_answer_to_the_others() -> None:
    gate, shared = asyncio.Event(), cache()
    first, second = (asyncio.create_task(shared.get("q", lambda: answer(gate))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await second == "x"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_when_the_last_caller_goes_the_computation_ends() -> None:
    gate, shared, ended = asyncio.Event(), cache(), asyncio.Event()

    async def long() -> str:
        try:
            return await answer(gate)
        finally:
            ended.set()

    only = asyncio.create_task(shared.get("q", long))
    # The first round starts the caller, the second its computation.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    only.cancel()
    # A bound for a hang, not a measurement.
    await asyncio.wait_for(ended.wait(), 60)
    assert await asyncio.wait_for(shared.get("q", answer), 60) == "x", "the next one asks anew"


async def test_a_failure_reaches_all_callers_and_is_forgotten() -> None:
    shared = cache()

    async def failing() -> str:
        raise ValueError("no")

    results = await asyncio.gather(*(shared.get("q", failing) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    # A failure that was held would be given to everybody until it expired.
    assert await shared.get("q", answer) == "x"


async def test_what_is_held_is_bounded_in_number_and_bytes() -> None:
    few, light = cache(entries=2), cache(entries=100, size_bytes=40)
    for shared in (few, light):
        for number in range(10):
            await shared.get(number, lambda: answer(text="0123456789"))
    assert len(few) == 2
    # Four values of ten bytes fit into 40.
    assert len(light) == 4
    heavy = cache(size_bytes=40)
    # A value of eleven is more than a quarter of 40, this cache's largest entry.
    await heavy.get("q", lambda: answer(text="x" * 11))
    assert len(heavy) == 0
    assert heavy.size_bytes == 0


async def test_a_value_may_live_shorter_than_the_others() -> None:
    now = 0.0
    shared = LoadingCache[str, str](max_entries=9, max_bytes=99, size_of=len, ttl_s=10.0, clock=lambda: now)
    await shared.get("long", answer)
    # Two seconds, and none at all.
    await shared.get("short", answer, lambda value: 2.0)
    await shared.get("none", answer, lambda value: 0.0)
    now = 3.0
    for key in ("long", "short", "none"):
        await shared.get(key, answer)
    # Three first loads, and two again: only the long-lived one was held.
    assert (shared.hits, shared.loads) == (1, 5)


async def test_a_caller_that_comes_while_an_abandoned_computation_ends_starts_its_own() -> None:
    gate, ending, shared = asyncio.Event(), asyncio.Event(), cache()

    # A computation that takes its time to be cancelled.
    async def slow_to_end() -> str:
        try:
            return await answer(asyncio.Event())
        finally:
            ending.set()
            await gate.wait()

    only = asyncio.create_task(shared.get("q", slow_to_end))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait_for(ending.wait(), 60)
    # The new caller gets its own result while the old computation is still ending.
    assert await asyncio.wait_for(shared.get("q", answer), 60) == "x"
    gate.set()


async def test_closing_cancels_what_is_under_way() -> None:
    shared = cache()
    only = asyncio.create_task(shared.get("q", lambda: answer(asyncio.Event())))
    await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(asyncio.CancelledError):
        await only


async def test_work_is_cached_only_when_all_of_it_was_held_before() -> None:
    outer, inner = cache(), cache()

    async def ask_inner() -> str:
        return await inner.get("part", answer)

    with observe_cache() as first:
        await outer.get("q", ask_inner)
    with observe_cache() as again:
        await outer.get("q", ask_inner)
    with observe_cache() as partly:
        # A task of its own counts as well: what it computes is new.
        await asyncio.gather(outer.get("q", ask_inner), outer.get("other", ask_inner))
    with observe_cache() as nothing:
        await answer()
    assert [use.is_cached for use in (first, again, partly, nothing)] == [False, True, False, False]
    # Of the third, the outer entry and the inner part of the new one were held.
    assert (partly.held, partly.computed) == (2, 1)


async def test_a_result_that_is_computed_for_another_caller_is_new() -> None:
    gate, shared = asyncio.Event(), cache()

    async def ask() -> bool:
        with observe_cache() as use:
            await shared.get("q", lambda: answer(gate))
        return use.is_cached

    group = [asyncio.create_task(ask()) for _ in range(2)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*group) == [False, False]
