"""Cells of an answer that run again: bounded, beside the record, in nobody else's session."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.errors import DeadlineExceeded, FathomError, NotReady, Overloaded
from fathom.services.gateway.users import make_key
from tests.e2e.replay import ReplayHouse
from tests.e2e.sandbox import ReplaySandbox
from tests.e2e.script import CODE
from tests.support.waiting import eventually

Opened = Callable[..., AbstractAsyncContextManager[tuple[httpx.AsyncClient, ReplayHouse]]]
OK = pb.Outcome(status=pb.EXECUTE_STATUS_OK, result="2", duration_ms=3)
PNG = b"\x89PNG\r\n\x1a\n"


def show(media_type: str, data: bytes) -> pb.ExecuteResponse:
    return pb.ExecuteResponse(display=pb.Display(media_type=media_type, data=data))


async def finish(client: httpx.AsyncClient, house: ReplayHouse) -> str:
    accepted = (await client.post("/v1/runs", json={"question": "why?", "request_id": "run_1"})).json()
    await eventually(lambda: house.planner.runs["run_1"].is_finished)
    return f"/v1/runs/{accepted['run_id']}/cells"


async def test_a_changed_cell_runs_with_the_runs_tables_and_the_record_stays(open_with: Opened) -> None:
    sandbox = ReplaySandbox()
    plot, broken = b'{"data": []}', b"{no json"
    displays = [
        show("application/vnd.plotly.v1+json", plot), show("application/vnd.plotly.v1+json", broken),
        show("image/png", PNG), show("text/html", b"<b>x</b>\xff"), show("application/json", b"{}"),
    ]  # fmt: skip
    chunk = pb.OutputChunk(stream=pb.OUTPUT_STREAM_STDERR, text="warned")
    sandbox.answers["1 + 1"] = [*displays, pb.ExecuteResponse(output=chunk), pb.ExecuteResponse(outcome=OK)]
    async with open_with(sandbox=sandbox) as (client, house):
        path = await finish(client, house)
        before = (await client.get("/v1/runs/run_1")).json()
        answer = await client.post(path, json={"number": 3, "code": "1 + 1"})
        assert answer.status_code == 200, answer.text
        assert answer.json() == {
            "status": "ok", "stdout": "", "stderr": "warned", "result": "2", "traceback": "", "cause": "",
            "duration_ms": 3, "left_out": 1, "missing": [],
            "figures": [
                {"media_type": "application/json", "content": plot.decode()},
                {"media_type": "image/png", "content": base64.b64encode(PNG).decode()},
                {"media_type": "text/html", "content": "<b>x</b>\ufffd"},
            ],
        }  # fmt: skip
        assert (await client.get("/v1/runs/run_1")).json() == before
    assert [(table.name, table.lazy) for table in sandbox.tables] == [("sheet_1", True)]
    # The only cell of the run that succeeded is the one that is changed.
    assert sandbox.executed == ["1 + 1"]
    [(tenant, request)] = sandbox.opened
    assert (tenant, request.limits.cell_wall_ms, request.limits.cells) == ("default", 30_000, 1)
    assert sandbox.closed == ["session_1"]


async def test_the_cells_before_it_make_its_state_and_tables_that_are_gone_are_named(open_with: Opened) -> None:
    sandbox = ReplaySandbox(gone={"sheet_1"})
    async with open_with(sandbox=sandbox) as (client, house):
        script = house.planner.script
        material = script.material()
        second = material[2].__class__()
        second.CopyFrom(material[2])
        second.number = 7
        second.code.code = "drawdown.max()"
        script.answer_material = [second]
        path = await finish(client, house)
        answer = (await client.post(path, json={"number": 7, "code": "drawdown.min()"})).json()
    assert sandbox.executed == [CODE, "drawdown.min()"]
    assert (answer["stdout"], answer["missing"]) == ("2\n", ["sheet_1"])


@pytest.mark.parametrize(
    ("status", "said"),
    [(pb.EXECUTE_STATUS_ERROR, "error"), (pb.EXECUTE_STATUS_TIMEOUT, "timeout"), (pb.EXECUTE_STATUS_OOM, "oom")],
)
async def test_what_ends_a_cell_is_a_result(open_with: Opened, status: Any, said: str) -> None:
    sandbox = ReplaySandbox()
    sandbox.answers["1/0"] = [pb.ExecuteResponse(outcome=pb.Outcome(status=status, traceback="Traceback", cause="why"))]
    async with open_with(sandbox=sandbox) as (client, house):
        path = await finish(client, house)
        answer = (await client.post(path, json={"number": 3, "code": "1/0"})).json()
    assert (answer["status"], answer["traceback"], answer["cause"]) == (said, "Traceback", "why")
    assert sandbox.closed == ["session_1"]


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (None, 503),
        (NotReady("no sandbox"), 503),
        (DeadlineExceeded("no free session"), 504),
        (Overloaded("all places are taken", 5.0), 429),
    ],
)
async def test_a_sandbox_that_is_away_or_full_is_refused(
    open_with: Opened, refusal: FathomError | None, status: int
) -> None:
    async with open_with(sandbox=refusal and ReplaySandbox(refusal=refusal)) as (client, house):
        path = await finish(client, house)
        answer = await client.post(path, json={"number": 3, "code": "1"})
    assert answer.status_code == status, answer.text
    if refusal is None:
        assert answer.json()["culprit"] == "sandbox"


async def test_a_broken_stream_and_a_fault_of_the_sandbox_name_it(open_with: Opened) -> None:
    sandbox = ReplaySandbox()
    fault = pb.Outcome(status=pb.EXECUTE_STATUS_INFRA_ERROR, cause="the worker is gone")
    sandbox.answers |= {"a": [], "b": [pb.ExecuteResponse(outcome=fault)]}
    async with open_with(sandbox=sandbox) as (client, house):
        path = await finish(client, house)
        for code in ("a", "b"):
            answer = await client.post(path, json={"number": 3, "code": code})
            assert (answer.status_code, answer.json()["culprit"]) == (503, "sandbox")
    assert sandbox.closed == ["session_1", "session_2"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"number": 3, "code": " \n"}, 400, "code"),
        ({"number": 3, "code": "x" * 65_537}, 400, "code"),
        ({"number": 3}, 400, "code"),
        ({"number": True, "code": "1"}, 400, "number"),
        ({"number": 2, "code": "1"}, 404, None),
        ({"number": 99, "code": "1"}, 404, None),
    ],
)
async def test_a_cell_that_cannot_run_again_is_refused(
    open_with: Opened, body: dict[str, Any], status: int, field: str | None
) -> None:
    sandbox = ReplaySandbox()
    async with open_with(sandbox=sandbox) as (client, house):
        path = await finish(client, house)
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.json().get("field")) == (status, field)
        missing = await client.post("/v1/runs/none/cells", json={"number": 3, "code": "1"})
        assert missing.status_code == 404
    assert sandbox.opened == []


async def test_a_run_that_goes_on_and_a_gateway_that_forbids_it_run_no_cell(open_with: Opened) -> None:
    sandbox = ReplaySandbox()
    async with open_with(sandbox=sandbox) as (client, house):
        house.planner.hold(before=4)
        await client.post("/v1/runs", json={"question": "why?", "request_id": "run_1"})
        answer = await client.post("/v1/runs/run_1/cells", json={"number": 3, "code": "1"})
        assert (answer.status_code, answer.json()["reason"]) == (409, "FAILED_PRECONDITION")
    async with open_with(sandbox=sandbox, cell_seconds=0) as (client, house):
        path = await finish(client, house)
        assert (await client.post(path, json={"number": 3, "code": "1"})).status_code == 403
    assert sandbox.opened == []


async def test_a_session_is_the_tenants_and_strangers_run_no_cell(open_with: Opened, tmp_path: Path) -> None:
    keys, sandbox = tmp_path / "keys.jsonl", ReplaySandbox()
    made = [make_key(name, f"fund-{name}") for name in ("a", "b")]
    keys.write_text("".join(f"{line}\n" for _, line in made))
    async with open_with(sandbox=sandbox, api_keys_file=str(keys)) as (client, house):
        client.headers["Authorization"] = f"Bearer {made[0][0]}"
        path = await finish(client, house)
        assert (await client.post(path, json={"number": 3, "code": "1"})).status_code == 200
        assert (
            await client.post(path, json={"number": 3, "code": "1"}, headers={"Authorization": ""})
        ).status_code == 401
    assert [tenant for tenant, _ in sandbox.opened] == ["fund-a"]


async def test_no_more_cells_run_at_once_than_there_is_room_for(open_with: Opened) -> None:
    class Slow(ReplaySandbox):
        free = asyncio.Event()

        async def CreateSession(self, request: pb.CreateSessionRequest, call: Any) -> pb.CreateSessionResponse:
            opened = await super().CreateSession(request, call)
            await self.free.wait()
            return opened

    sandbox = Slow()
    async with open_with(sandbox=sandbox) as (client, house):
        path = await finish(client, house)
        body = {"number": 3, "code": "1"}
        running = [asyncio.create_task(client.post(path, json=body)) for _ in range(4)]
        await eventually(lambda: len(sandbox.opened) == 4)
        refused = await client.post(path, json=body)
        assert (refused.status_code, "Retry-After" in refused.headers) == (429, True)
        sandbox.free.set()
        assert {one.status_code for one in await asyncio.gather(*running)} == {200}
    assert len(sandbox.closed) == 4
