"""Imported sheets with a lifetime: when they are deleted, what keeps them, and how many bytes they may have."""

from __future__ import annotations

import pytest

from fathom.core.errors import FailedPrecondition
from fathom.services.datafetch.lifetimes import make_lifetimes
from fathom.transport.store.lifetimes import Lifetimes
from fathom.transport.store.memory import MemoryStore


class Time:
    """Clock that a test sets, in seconds."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


async def make(max_bytes: int = 100, **sheets: int) -> tuple[Lifetimes, Time]:
    """Return the lifetimes of sheets of ten bytes with these lifetimes in seconds."""
    clock = Time()
    lifetimes = make_lifetimes(MemoryStore(), max_bytes)
    lifetimes.now = clock
    for sheet_id, lifetime_s in sheets.items():
        for key in (f"tables/{sheet_id}.parquet", f"tables/{sheet_id}.pb", f"exports/{sheet_id}.csv"):
            await lifetimes.store.put(key, b"x" * 10)
        await lifetimes.note(sheet_id, 10, lifetime_s)
    return lifetimes, clock


async def test_a_sheet_is_deleted_with_its_exports_when_its_time_is_over() -> None:
    lifetimes, clock = await make(first=60, second=120)
    clock.seconds += 60
    assert [one.name for one in await lifetimes.sweep()] == ["second"]
    keys = await lifetimes.store.keys("")
    assert not [key for key in keys if "first" in key]
    assert len([key for key in keys if "second" in key]) == 4


async def test_a_sheet_that_is_imported_again_lives_on() -> None:
    lifetimes, clock = await make(same=60)
    clock.seconds += 30
    await lifetimes.note("same", 10, 60)
    clock.seconds += 45
    await lifetimes.sweep()
    assert await lifetimes.store.head("tables/same.pb") is not None
    clock.seconds += 45
    await lifetimes.sweep()
    assert await lifetimes.store.keys("") == []


async def test_what_is_over_makes_room_and_more_than_the_room_is_refused() -> None:
    lifetimes, clock = await make(25, first=60, second=120)
    with pytest.raises(FailedPrecondition, match="25 bytes together"):
        await lifetimes.admit(10)
    clock.seconds += 60
    await lifetimes.admit(10)
    with pytest.raises(FailedPrecondition, match="1970-01-01 00:18 UTC"):
        await lifetimes.admit(16)
