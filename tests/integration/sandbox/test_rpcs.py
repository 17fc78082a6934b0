"""The sandbox's RPCs, answered through the socket by a supervisor process of its own."""

from __future__ import annotations

import json
import resource
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import pytest_asyncio

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core import errors
from fathom.core.call import Call
from fathom.domain import frames
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.displays import PREFIX
from fathom.services.sandbox.front.supervisor_client import SupervisorClient
from fathom.services.sandbox.server import SandboxServicer
from fathom.transport.store import open_store
from fathom.transport.store.refs import read_ref, to_ref
from tests.integration.sandbox.conftest import FIGURE, make_front, open_session
from tests.support.bombs import make_arrow_bomb, make_parquet_bomb
from tests.support.tables import to_arrow

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front() -> AsyncIterator[SupervisorClient]:
    front = make_front(max_sessions=4, spares=1)
    await front.start()
    yield front
    await front.close()


@pytest.fixture
def rpc(front: SupervisorClient) -> SandboxServicer:
    return SandboxServicer(front, open_store("memory://"), Config())


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


async def test_rpcs_from_create_to_close(rpc: SandboxServicer) -> None:
    call = Call.new()
    opened = await rpc.CreateSession(pb.CreateSessionRequest(limits=pb.Limits(output_bytes=1024)), call)
    sid = opened.session_id
    assert opened.isolation == pb.ISOLATION_LEVEL_NAMESPACE
    arrow = to_arrow(pd.DataFrame({"a": [1, None]}))
    put = pb.PutFrameRequest(session_id=sid, name="sheet_1", arrow=arrow, description="Two rows.")
    reply = await rpc.PutFrame(put, call)
    assert (reply.rows, reply.digest.splitlines()[:2]) == (2, ["Two rows.", "sheet_1: 2 rows × 1 columns"])
    kept = frames.write_parquet(frames.read_table(arrow))
    stored = await rpc._store.put("t", kept, frames.PARQUET)
    assert (await rpc.PutFrame(pb.PutFrameRequest(session_id=sid, name="s2", ref=to_ref(stored)), call)).rows == 2
    request = pb.ExecuteRequest(session_id=sid, code="print('x' * 2_000)\nq = len(sheet_1) + len(s2)\nq")
    events = await collect(rpc.Execute(request, call))
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert events[1].output.text == "\n[… 977 bytes left out …]\n"
    outcome = events[-1].outcome
    assert (outcome.status, outcome.result, outcome.dropped_output_bytes) == (pb.EXECUTE_STATUS_OK, "4", 977)
    names = [item.name for item in (await rpc.ListVariables(pb.ListVariablesRequest(session_id=sid), call)).variables]
    assert names == ["q", "s2", "sheet_1"]
    assert not (await rpc.Interrupt(pb.InterruptRequest(session_id=sid), call)).interrupted
    assert list((await rpc.Restart(pb.RestartRequest(session_id=sid), call)).frames) == ["sheet_1", "s2"]
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)
    with pytest.raises(errors.NotFound):
        await rpc.ListVariables(pb.ListVariablesRequest(session_id=sid), call)


@pytest.mark.parametrize("way", ["in the call", "by reference"])
async def test_a_table_that_unpacks_to_gigabytes_costs_the_front_nothing(rpc: SandboxServicer, way: str) -> None:
    call = Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    request = pb.PutFrameRequest(session_id=sid, name="sheet_1")
    if way == "in the call":
        bomb = request.arrow = make_arrow_bomb(2 << 30)
    else:
        # Some hundred bytes that say two gigabytes, in an object that the store serves like any other.
        bomb = make_parquet_bomb(200_000, 10_000)
        request.ref.CopyFrom(to_ref(await rpc._store.put("t", bomb, frames.PARQUET)))
    assert len(bomb) < 512 * 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.InvalidField, match="data: "):
        await rpc.PutFrame(request, call)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 256 * 1024
    arrow = to_arrow(pd.DataFrame({"a": [1]}))
    assert (await rpc.PutFrame(pb.PutFrameRequest(session_id=sid, name="sheet_1", arrow=arrow), call)).rows == 1
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)
    rpc.close()


async def test_files_by_rpc(rpc: SandboxServicer) -> None:
    call = Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    content = bytes(300_000)
    put = await rpc.PutFile(pb.PutFileRequest(session_id=sid, path="in.bin", content=content), call)
    assert put.size_bytes == 300_000
    await collect(rpc.Execute(pb.ExecuteRequest(session_id=sid, code="open('out.txt', 'w').write('done')"), call))
    listed = await rpc.ListFiles(pb.ListFilesRequest(session_id=sid), call)
    assert [(file.path, file.size_bytes) for file in listed.files] == [("in.bin", 300_000), ("out.txt", 4)]
    chunks = [part.chunk async for part in rpc.GetFile(pb.GetFileRequest(session_id=sid, path="in.bin"), call)]
    assert (len(chunks), b"".join(chunks)) == (2, content)
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)


async def test_a_silent_cell_says_that_it_still_runs(front: SupervisorClient) -> None:
    call, rpc = Call.new(), SandboxServicer(front, open_store("memory://"), Config(keep_alive_s=0.05))
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    cell = pb.ExecuteRequest(
        session_id=sid, request_id="silent", code="import time\nprint(1)\ntime.sleep(0.5)\nprint(2)"
    )
    events = await collect(rpc.Execute(cell, call))
    kinds = [event.WhichOneof("event") for event in events]
    first, second = kinds.index("output"), len(kinds) - 1 - kinds[::-1].index("output")
    alive = events[first + 1 : second]
    assert len(alive) >= 3
    assert {event.WhichOneof("event") for event in alive} == {"keep_alive"}
    assert {event.sequence for event in alive} == {1}
    assert [event.keep_alive.elapsed_ms for event in alive] == sorted(event.keep_alive.elapsed_ms for event in alive)
    assert kinds[-1] == "outcome"
    again = await collect(rpc.Execute(cell, call))
    assert [event.WhichOneof("event") for event in again] == ["output", "output", "outcome"]
    assert [event.sequence for event in again] == [1, 2, 3]
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)


async def test_large_figures_go_by_reference(rpc: SandboxServicer) -> None:
    call = Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    code = FIGURE.format(n=60_000).replace("list(range(60000))", "[str(i) for i in range(60000)]") + "fig"
    events = await collect(rpc.Execute(pb.ExecuteRequest(session_id=sid, code=code), call))
    display = next(event.display for event in events if event.HasField("display"))
    assert display.data == b""
    assert display.ref.size_bytes > 256 * 1024
    figure = json.loads(await read_ref(rpc._store, display.ref))
    assert len(figure["data"][0]["x"]) == 60_000
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)


async def test_a_closed_session_leaves_no_display_in_the_store(rpc: SandboxServicer) -> None:
    call = Call.new()
    code = FIGURE.format(n=60_000).replace("list(range(60000))", "[str(i) for i in range(60000)]")
    sids = [(await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id for _ in range(2)]
    for sid in sids:
        events = await collect(rpc.Execute(pb.ExecuteRequest(session_id=sid, code=f"{code}fig"), call))
        assert any(event.display.ref.size_bytes for event in events if event.HasField("display"))
    assert {key.split("/")[2] for key in await rpc._store.keys(PREFIX)} == set(sids)
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sids[0]), call)
    # The other session's stay for as long as it lives.
    assert {key.split("/")[2] for key in await rpc._store.keys(PREFIX)} == {sids[1]}
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sids[1]), call)
    assert await rpc._store.keys(PREFIX) == []


async def test_requests_that_are_wrong_name_their_field(rpc: SandboxServicer) -> None:
    call = Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    arrow = to_arrow(pd.DataFrame({"a": [1]}))
    bad = [
        (pb.PutFrameRequest(session_id=sid, name="x"), "data"),
        (pb.PutFrameRequest(session_id=sid, name="x", arrow=b"garbage"), "data"),
        (pb.PutFrameRequest(session_id=sid, name="a b", arrow=arrow), "name"),
        (pb.PutFrameRequest(session_id=sid, name="x", arrow=arrow, description="d" * 1_001), "description"),
    ]
    for request, field in bad:
        with pytest.raises(errors.InvalidField) as refused:
            await rpc.PutFrame(request, call)
        assert refused.value.field == field
    with pytest.raises(errors.PayloadTooLarge):
        await rpc.PutFrame(pb.PutFrameRequest(session_id=sid, name="x", arrow=bytes(512 * 1024 + 1)), call)
    for cell in (pb.ExecuteRequest(session_id=sid), pb.ExecuteRequest(session_id=sid, code="1", wall_ms=-1)):
        with pytest.raises(errors.InvalidField):
            await collect(rpc.Execute(cell, call))
    with pytest.raises(errors.InvalidField, match="limits"):
        await rpc.CreateSession(pb.CreateSessionRequest(limits=pb.Limits(cpu_ms=-1)), call)
    isolation = await rpc.GetIsolation(pb.GetIsolationRequest(), call)
    assert isolation.level == pb.ISOLATION_LEVEL_NAMESPACE
    assert {"seccomp allow-list", "no capabilities", "no network", "net namespace"} <= set(isolation.layers)


async def test_a_display_store_that_fails_leaves_the_cell_to_be_asked_for_again(front: SupervisorClient) -> None:
    async def refuse(*args: object) -> None:
        raise errors.DependencyFailed("store", "is away")

    sid = await open_session(front)
    request = pb.ExecuteRequest(
        request_id="figure",
        session_id=sid,
        code=FIGURE.format(n=60_000).replace("list(", "list(str(i) for i in ") + "fig",
    )
    broken = SandboxServicer(front, SimpleNamespace(put=refuse), Config())
    with pytest.raises(errors.DependencyFailed):
        await collect(broken.Execute(request, Call.new()))
    events = await collect(SandboxServicer(front, open_store("memory://"), Config()).Execute(request, Call.new()))
    assert events[-1].outcome.status in (pb.EXECUTE_STATUS_OK, pb.EXECUTE_STATUS_INTERRUPTED)


async def test_without_an_object_store_tables_and_figures_travel_in_the_calls(front: SupervisorClient) -> None:
    async def never(*args: object) -> None:
        raise AssertionError("this sandbox has no store")

    rpc, call = SandboxServicer(front, SimpleNamespace(put=never, get=never), Config(objects=False)), Call.new()
    sid = (await rpc.CreateSession(pb.CreateSessionRequest(), call)).session_id
    arrow = to_arrow(pd.DataFrame({"a": range(100_000)}))
    assert len(arrow) > 512 * 1024
    reply = await rpc.PutFrame(pb.PutFrameRequest(session_id=sid, name="sheet_1", arrow=arrow), call)
    assert reply.rows == 100_000
    with pytest.raises(errors.InvalidField, match="objects is false"):
        await rpc.PutFrame(pb.PutFrameRequest(session_id=sid, name="s2", ref=pb.PutFrameRequest().ref), call)
    code = FIGURE.format(n=60_000).replace("list(", "list(str(i) for i in ") + "fig"
    events = await collect(rpc.Execute(pb.ExecuteRequest(session_id=sid, code=code), call))
    (display,) = [event.display for event in events if event.HasField("display")]
    assert len(display.data) > 256 * 1024
    assert json.loads(display.data)["data"]
    await rpc.CloseSession(pb.CloseSessionRequest(session_id=sid), call)
