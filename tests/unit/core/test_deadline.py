"""A time limit reports its own end, and leaves the timeouts of the code inside it alone."""

from __future__ import annotations

import asyncio
import time

import pytest

from fathom.core.deadline import remaining_s, time_limit
from fathom.core.errors import DeadlineExceeded


async def test_a_block_that_outlasts_the_limit_ends_with_the_culprit() -> None:
    with pytest.raises(DeadlineExceeded, match="vendor did not answer in time") as raised:
        async with time_limit(0.001, "vendor"):
            await asyncio.Event().wait()
    assert raised.value.metadata["culprit"] == "vendor"


async def test_a_timeout_of_the_block_is_not_reported_as_the_limit() -> None:
    with pytest.raises(TimeoutError, match="of a socket"):
        async with time_limit(60.0, "vendor"):
            raise TimeoutError("of a socket")


async def test_without_seconds_there_is_no_limit() -> None:
    async with time_limit(None, "vendor"):
        await asyncio.sleep(0)
    assert remaining_s(None, "vendor") is None


def test_a_deadline_in_the_past_names_who_was_given_no_time() -> None:
    with pytest.raises(DeadlineExceeded, match="vendor was given no time"):
        remaining_s(time.monotonic() - 1.0, "vendor")
    assert 0.0 < (remaining_s(time.monotonic() + 9.0, "vendor") or 0.0) <= 9.0
