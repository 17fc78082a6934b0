"""Sessions belong to the tenant who opened them: to all others each RPC about one says that it is not there."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import pandas as pd
import pytest
import pytest_asyncio

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.clients import Clients
from fathom.core import errors
from fathom.core.call import Call, calling
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.sandbox import server
from fathom.services.sandbox.config import Config
from fathom.transport.bus import open_bus
from fathom.transport.rpc.contract import Method, contract, once
from fathom.transport.store import open_store
from tests.integration.sandbox.conftest import make_engine
from tests.support.tables import to_arrow

pytestmark = pytest.mark.asyncio(loop_scope="module")
ABOUT_A_SESSION = [
    method
    for method in contract("sandbox").methods.values()
    if "session_id" in method.request_type.DESCRIPTOR.fields_by_name
]
# What the front checks before it asks whose session it is.
VALID: dict[str, dict[str, Any]] = {
    "PutFrame": {"name": "t", "arrow": to_arrow(pd.DataFrame({"x": [1]}))},
    "Execute": {"code": "1"},
    "PutFile": {"path": "a.txt"},
    "GetFile": {"path": "a.txt"},
}
A, B = Call.new(tenant="fund-7"), Call.new(tenant="fund-8")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients() -> AsyncIterator[Clients]:
    telemetry, store = Telemetry("sandbox", stream=io.StringIO()), open_store("memory://")
    deps = Deps(Clients({}, telemetry), store, await open_bus("memory://", store), telemetry)
    async with hosting(server.build(Config(spares=1), deps), deps, Runtime()) as hosted:
        await hosted.warm
        yield Clients({"sandbox": hosted.url}, telemetry)


async def ask(clients: Clients, method: Method, session_id: str, run_id: str = "") -> None:
    request = method.request_type(session_id=session_id, run_id=run_id, **VALID.get(method.name, {}))
    async for _ in clients.sandbox.stream(method, once(request), 30):
        return


@pytest.mark.parametrize("method", ABOUT_A_SESSION, ids=lambda method: method.name)
async def test_another_tenants_session_is_not_there(clients: Clients, method: Method) -> None:
    with calling(A):
        opened = await clients.sandbox.create_session(pb.CreateSessionRequest(), timeout_s=30)
    for call in (B, Call.new()):
        with calling(call), pytest.raises(errors.NotFound) as missing:
            await ask(clients, method, opened.session_id)
        assert missing.value.metadata["kind"] == "session"
    with calling(A):
        await clients.sandbox.close_session(pb.CloseSessionRequest(session_id=opened.session_id))


@pytest.mark.parametrize("method", ABOUT_A_SESSION, ids=lambda method: method.name)
async def test_another_runs_session_is_not_there(clients: Clients, method: Method) -> None:
    with calling(A):
        opened = await clients.sandbox.create_session(pb.CreateSessionRequest(run_id="run_1"), timeout_s=30)
        for run_id in ("run_2", ""):
            with pytest.raises(errors.NotFound) as missing:
                await ask(clients, method, opened.session_id, run_id)
            assert missing.value.metadata["kind"] == "session"
        # The run's own request is served, so that it was the run that was missing.
        await clients.sandbox.list_files(pb.ListFilesRequest(session_id=opened.session_id, run_id="run_1"))
        await clients.sandbox.close_session(pb.CloseSessionRequest(session_id=opened.session_id, run_id="run_1"))


async def test_the_name_of_a_run_is_bounded(clients: Clients) -> None:
    with calling(A), pytest.raises(errors.InvalidField, match="run_id"):
        await clients.sandbox.create_session(pb.CreateSessionRequest(run_id="x" * 257), timeout_s=30)


async def test_one_tenant_leaves_room_for_another_by_default() -> None:
    engine = make_engine(max_sessions=4, spares=0)
    await engine.start()
    try:
        for _ in range(3):
            await engine.create(tenant="a")
        with pytest.raises(errors.Overloaded, match="all 3 sandbox sessions of tenant 'a'"):
            await engine.create(tenant="a")
        await engine.create(tenant="b")
    finally:
        await engine.close()
