"""One computation for a group that asks the same, a bounded memory, and no cancelled caller who takes others along."""

from __future__ import annotations

import asyncio

import pytest

from services.datafetch.flight import Flight


def flight(entries: int = 4, weight: int = 400) -> Flight[str]:
    return Flight(entries, weight, len)


async def answer(gate: asyncio.Event | None = None, text: str = "x") -> str:
    if gate is not None:
        await gate.wait()
    return text


async def test_a_group_of_eight_computes_once() -> None:
    gate, shared = asyncio.Event(), flight()
    group = [asyncio.create_task(shared.get("q", lambda: answer(gate))) for _ in range(8)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*group) == ["x"] * 8
    assert await shared.get("q", answer) == "x"
    assert (shared.asked, shared.computed) == (9, 1)


async def test_a_cancelled_caller_leaves_the_answer_to_the_others() -> None:
    gate, shared = asyncio.Event(), flight()
    first, second = (asyncio.create_task(shared.get("q", lambda: answer(gate))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await second == "x"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_when_the_last_caller_goes_the_computation_ends() -> None:
    gate, shared, ended = asyncio.Event(), flight(), asyncio.Event()

    async def long() -> str:
        try:
            return await answer(gate)
        finally:
            ended.set()

    only = asyncio.create_task(shared.get("q", long))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait_for(ended.wait(), 60)
    assert await asyncio.wait_for(shared.get("q", answer), 60) == "x", "the next one asks anew"


async def test_a_failure_is_told_to_all_and_forgotten() -> None:
    shared = flight()

    async def failing() -> str:
        raise ValueError("no")

    results = await asyncio.gather(*(shared.get("q", failing) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    assert await shared.get("q", answer) == "x"


async def test_what_is_remembered_is_bounded_in_number_and_weight() -> None:
    few, light = flight(entries=2), flight(entries=100, weight=40)
    for shared in (few, light):
        for number in range(10):
            await shared.get(number, lambda: answer(text="0123456789"))
    assert len(few._kept) == 2
    assert len(light._kept) == 4
    heavy = flight(weight=40)
    await heavy.get("q", lambda: answer(text="x" * 11))
    assert len(heavy._kept) == 0
