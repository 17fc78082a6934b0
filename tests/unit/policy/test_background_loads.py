"""Loading of weights is begun and asked for again: no call needs to last as long as it does."""

from __future__ import annotations

import asyncio

import pytest

from fathom.core.errors import CorruptData, NotReady
from fathom.services.policy.serving.background_loads import BackgroundLoads


class Loading:
    """An activation that ends when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun, self.may_end, self.error = 0, asyncio.Event(), error

    async def __call__(self) -> str:
        self.begun += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return "served"


async def test_a_call_that_comes_again_joins_the_loading() -> None:
    loads, loading = BackgroundLoads(), Loading()
    for _ in range(3):
        with pytest.raises(NotReady) as told:
            await loads.join("v1", loading, 0.001)
        assert told.value.retry_after_s, "so that clients ask again"
    loading.may_end.set()
    assert await loads.join("v1", loading, 5.0) == "served"
    assert loading.begun == 1


async def test_a_caller_that_leaves_does_not_end_it() -> None:
    loads, loading = BackgroundLoads(), Loading()
    caller = asyncio.create_task(loads.join("v1", loading, 60.0))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    loading.may_end.set()
    assert await loads.join("v1", loading, 5.0) == "served"
    assert loading.begun == 1


async def test_a_failure_is_told_once_and_then_tried_again() -> None:
    loads, loading = BackgroundLoads(), Loading(CorruptData("weights", "bad"))
    with pytest.raises(NotReady):
        await loads.join("v1", loading, 0.001)
    loading.may_end.set()
    with pytest.raises(CorruptData):
        await loads.join("v1", loading, 5.0)
    with pytest.raises(CorruptData):
        await loads.join("v1", loading, 5.0)
    assert loading.begun == 2


async def test_closing_ends_what_is_under_way() -> None:
    loads, loading = BackgroundLoads(), Loading()
    with pytest.raises(NotReady):
        await loads.join("v1", loading, 0.001)
    await loads.close()
    with pytest.raises(NotReady):
        await loads.join("v1", loading, 0.001)
    await loads.close()
    assert loading.begun == 2
