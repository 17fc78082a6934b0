"""An HTTP client on a gateway over doubles of its own boundary, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.e2e.replay import ReplayHouse, replay_house
from tests.e2e.sandbox import ReplaySandbox
from tests.e2e.script import Script

Door = tuple[httpx.AsyncClient, ReplayHouse]


@asynccontextmanager
async def open_door(sandbox: ReplaySandbox | None = None, **settings: Any) -> AsyncIterator[Door]:
    figure = {"data": [{"type": "scatter", "x": [1], "y": [2]}], "layout": {"title": {"text": ""}}}
    script = Script(days=30, figures=[figure])
    async with replay_house(script, sandbox, **settings) as (house, _):
        transport = httpx.ASGITransport(house.service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client, house


@pytest.fixture
def open_with() -> Callable[..., AbstractAsyncContextManager[Door]]:
    """Return ``open_with(token="x")``: it opens a door with other settings."""
    return open_door


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Door]:
    async with open_door() as found:
        yield found
