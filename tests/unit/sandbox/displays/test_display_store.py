"""Displays of a session do not stay in the object store for good, whoever forgets to close it."""

from __future__ import annotations

from functools import partial

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import DependencyFailed, FathomError, Internal
from fathom.services.sandbox.front.displays import MAX_SESSION_BYTES, DisplayStore
from fathom.transport.store.memory import MemoryStore
from tests.support.waiting import eventually

PNG = "image/png"
A, B = Call.new(tenant="fund-7"), Call.new(tenant="fund-8")


async def test_they_go_with_their_session_and_no_others_do() -> None:
    store = MemoryStore()
    displays = DisplayStore(store, 3600)
    with calling(A):
        await displays.put("session_1", b"one", PNG)
        await displays.put("session_1", b"two", PNG)
        kept = await displays.put("session_2", b"three", PNG)
        assert kept is not None
        await displays.forget("session_1")
    assert await store.keys("") == [f"tenants/fund-7/{kept.key}"]


async def test_a_session_displays_so_many_bytes_and_the_same_picture_once() -> None:
    displays = DisplayStore(MemoryStore(), 3600)
    half = MAX_SESSION_BYTES // 2
    assert await displays.put("session_1", b"a" * half, PNG) is not None
    assert await displays.put("session_1", b"a" * half, PNG) is not None
    assert await displays.put("session_1", b"b" * half, PNG) is not None
    assert await displays.put("session_1", b"c", PNG) is None
    assert await displays.put("session_2", b"c", PNG) is not None


async def test_what_is_left_by_sessions_of_any_replica_and_tenant_is_removed_after_its_time() -> None:
    store, now = MemoryStore(), 1_000_000.0
    ended = DisplayStore(store, 3600, lambda: now)
    for call in (A, B, Call.new()):
        with calling(call):
            await ended.put("session_1", b"one", PNG)
            await store.put("sheets/other", b"not ours")
    # As an earlier version named them.
    await store.put("displays/session_0/0123", b"old")
    replica = DisplayStore(store, 3600, lambda: now)
    assert await replica.sweep() == 1
    now += 3600 + 601
    with calling(A):
        await replica.put("session_9", b"young", PNG)
    assert await replica.sweep() == 3
    assert sorted(key.rpartition("/")[2] for key in await store.keys("") if "displays" not in key) == ["other"]
    assert len(await store.keys("tenants/fund-7/displays/")) == 1


async def test_a_defect_of_one_sweep_is_reported_and_ends_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.services.sandbox.front.displays.SWEEP_S", 0.0)
    errors: list[Exception] = [ValueError("a defect"), DependencyFailed("the store", "is away")]

    class FailingStore(MemoryStore):
        async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> list[str]:
            if errors:
                raise errors.pop(0)
            return await super().keys(prefix, after=after, limit=limit)

    store, reported = FailingStore(), list[FathomError]()
    old = await store.put("displays/1/session_1/0123", b"old")
    displays = DisplayStore(store, 3600)
    displays.start(reported.append)

    async def is_swept() -> bool:
        return await store.head(old.key) is None

    await eventually(partial(is_swept))
    await displays.close()
    assert [type(error) for error in reported] == [Internal, DependencyFailed]
