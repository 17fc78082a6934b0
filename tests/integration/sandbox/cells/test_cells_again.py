"""A cell of a recorded run, run again through the gateway in a real sandbox: tables, state, walls and end."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import httpx
import pandas as pd
import pytest_asyncio

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1.datafetch_pb2 import Sheet
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.hosting.deps import Deps
from fathom.hosting.host import Runtime, hosting
from fathom.services.gateway.config import Config as GatewayConfig
from fathom.services.gateway.server import build
from fathom.services.sandbox import server
from fathom.services.sandbox.config import Config
from fathom.transport.bus import open_bus
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from fathom.transport.store import open_store
from fathom.transport.store.refs import to_ref
from tests.support.tables import to_arrow

CELLS = ("total = int(sheet_1['x'].sum())\ntotal", "total * 2")


class Recorded:
    """A planner that knows one run: two cells over a table."""

    def __init__(self, table: common.ObjectRef) -> None:
        sheet = Sheet(id="t1", title="numbers", rows=3, data=table)
        material = [trajectory.Material(number=1, sheet=sheet, variable="sheet_1")]
        material += [
            trajectory.Material(number=number, code=trajectory.CodeRecord(code=code, ok=True))
            for number, code in enumerate(CELLS, 2)
        ]
        self.run = trajectory.Trajectory(run_id="run_1", steps=[trajectory.Step(material=material)])

    async def GetRun(self, request: planner.GetRunRequest, call: Call) -> planner.GetRunResponse:
        return planner.GetRunResponse(trajectory=self.run)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    telemetry, store = Telemetry("gateway", stream=io.StringIO()), open_store("memory://")
    bus = await open_bus("memory://", store)
    stored = await store.put(
        "tables/t1", to_arrow(pd.DataFrame({"x": [1, 2, 3]})), "application/vnd.apache.arrow.stream"
    )
    deps = Deps(Clients({}, telemetry), store, bus, telemetry)
    async with hosting(server.build(Config(spares=1), deps), deps, Runtime()) as hosted:
        await hosted.warm
        dispatcher = Dispatcher(Service("planner", Recorded(to_ref(stored))), telemetry)
        dispatcher.ready = True
        endpoints = {"planner": "inproc://planner", "sandbox": hosted.url}
        clients = Clients(endpoints, telemetry, dispatchers={"planner": dispatcher})
        service = build(GatewayConfig(cell_seconds=20), Deps(clients, store, bus, telemetry))
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as opened:
            yield opened
        await service.close()
        await clients.close()


async def run_again(client: httpx.AsyncClient, number: int, code: str) -> dict[str, object]:
    answer = await client.post("/v1/runs/run_1/cells", json={"number": number, "code": code})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


async def test_a_cell_has_the_tables_and_the_state_of_those_before_it_and_leaves_none(
    client: httpx.AsyncClient,
) -> None:
    again = await run_again(client, 3, "kept = total * 10\nkept")
    assert (again["status"], again["result"]) == ("ok", "60")
    # Each has a session of its own: nothing of one is left for the next, and none sees the cells behind it.
    lost = await run_again(client, 3, "kept")
    assert (lost["status"], "NameError" in str(lost["traceback"])) == ("error", True)
    first = await run_again(client, 2, "'total' in globals(), int(sheet_1['x'].max())")
    assert first["result"] == "(False, 3)"
    walled = await run_again(client, 3, "import socket; socket.create_connection(('127.0.0.1', 80))")
    assert walled["status"] == "error"
