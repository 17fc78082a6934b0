"""Sessions of the MCP server over HTTP: a client that opens many takes no place from others, and idle ones end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from fathom.services.planner.mcp.sessions import SessionLimits
from tests.integration.planner.toy_server import Toy
from tests.support.waiting import eventually

MOST = 4
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class House:
    """A toy behind the limits; ``now`` is its clock."""

    def __init__(self) -> None:
        self.toy, self.now, self.ended = Toy(), 0.0, list[str]()
        self._app = self.toy.server().streamable_http_app(max_sessions=MOST, host="127.0.0.1")
        self._limited = SessionLimits(self._app, MOST, 60.0, self._end, lambda: self.now)

    async def _end(self, ident: str) -> None:
        self.ended.append(ident)

    @asynccontextmanager
    async def client(self, address: str = "10.0.0.1") -> AsyncIterator[httpx2.AsyncClient]:
        transport = httpx2.ASGITransport(self._limited, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", headers=HEADERS) as found:
            yield found

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._app.router.lifespan_context(self._app):
            yield


async def send(client: httpx2.AsyncClient, method: str, session: str = "", **params: object) -> httpx2.Response:
    headers = {"mcp-session-id": session} if session else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await client.post("/mcp", content=json.dumps(body), headers=headers)


async def begin(client: httpx2.AsyncClient) -> str:
    """Open a session as a client does, and return its id."""
    response = await send(client, "initialize", **INITIALIZE)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    session = response.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await client.post("/mcp", content=json.dumps(ready), headers={"mcp-session-id": session})
    return str(session)


async def call(client: httpx2.AsyncClient, session: str, name: str) -> int:
    return (await send(client, "tools/call", session, name=name, arguments={})).status_code


async def test_a_client_that_opens_many_sessions_takes_no_place_from_others() -> None:
    house = House()
    async with house.running(), house.client() as greedy, house.client("10.0.0.2") as modest:
        own = await begin(modest)
        opened = [await begin(greedy) for _ in range(3 * MOST)]
        assert await call(modest, own, "fail") == 200, "its session stands, though it was idle for longest"
        assert await call(greedy, opened[-1], "fail") == 200
        assert await call(greedy, opened[0], "fail") == 404
        assert house.ended == opened[: -MOST + 1]


async def test_a_session_at_work_is_never_ended() -> None:
    house = House()
    async with house.running(), house.client() as client:
        sessions = [await begin(client) for _ in range(MOST)]
        working = [asyncio.create_task(call(client, session, "slow")) for session in sessions]
        await eventually(lambda: len(house.toy.heard) == MOST)
        refused = await send(client, "initialize", **INITIALIZE)  # type: ignore[arg-type]
        assert refused.status_code == 503
        house.toy.released.set()
        assert await asyncio.gather(*working) == [200] * MOST
        await begin(client)


async def test_an_idle_session_ends() -> None:
    house = House()
    async with house.running(), house.client() as client:
        idle, used = await begin(client), await begin(client)
        house.now = 59.0
        assert await call(client, used, "fail") == 200
        house.now = 61.0
        await begin(client)
        assert house.ended == [idle]
        assert await call(client, idle, "fail") == 404
        assert await call(client, used, "fail") == 200
