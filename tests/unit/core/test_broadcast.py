"""Broadcasts: every reader gets every item in order, whenever it comes, and then the end."""

from __future__ import annotations

import asyncio

import pytest

from fathom.core.broadcast import Broadcast


async def collect(broadcast: Broadcast[int]) -> list[int]:
    return [item async for item in broadcast.read()]


async def collect_into(seen: list[int], broadcast: Broadcast[int]) -> None:
    async for item in broadcast.read():
        seen.append(item)


async def test_early_and_late_readers_get_the_same_items() -> None:
    broadcast = Broadcast[int]()
    early = asyncio.create_task(collect(broadcast))
    for number in range(3):
        broadcast.add(number)
        await asyncio.sleep(0)
    during = asyncio.create_task(collect(broadcast))
    await asyncio.sleep(0)
    broadcast.add(3)
    broadcast.close()
    # Early, in the middle and after the end: all see everything from the beginning.
    assert await asyncio.gather(early, during, collect(broadcast)) == [[0, 1, 2, 3]] * 3


async def test_an_error_comes_after_the_items_and_the_first_end_counts() -> None:
    broadcast = Broadcast[int]()
    broadcast.add(1)
    broadcast.close(ValueError("first"))
    # A second end changes nothing of the first.
    broadcast.close()
    seen: list[int] = []
    with pytest.raises(ValueError, match="first"):
        await collect_into(seen, broadcast)
    assert (seen, broadcast.is_closed) == ([1], True)
