"""Test that no RPC of the real stack gives a tenant what another one has made."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import pytest_asyncio

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1.trajectory_pb2 import CONSENT_REFUSED, PROTOCOL_RESEARCH, STOP_REASON_FINISHED
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients import Clients
from fathom.core.call import Call, calling
from fathom.core.errors import NotFound, PermissionDenied
from fathom.services.local import Endpoints
from fathom.transport.rpc.access import Scope, access_of
from fathom.transport.rpc.contract import DOMAINS, Method, contract, once
from tests.support.observer import list_logged
from tests.support.tables import to_arrow

pytestmark = pytest.mark.asyncio(loop_scope="package")

A, B, OPERATOR = Call.new(tenant="fund-7"), Call.new(tenant="fund-8"), Call.new()
# Fields that name a thing that a tenant has made before; the other ones name what a call makes, such as a run's id.
NAMED = ("run_id", "conversation_id", "session_id", "sheet_id", "sheet_ids", "rollout_id")
# What else a request needs before its service looks for the thing.
VALID: dict[str, dict[str, Any]] = {
    "SetConsent": {"consent": CONSENT_REFUSED},
    "UpdateConversation": {"title": "mine"},
    "RunSql": {"sql": "select 1"},
    "ReadQuestion": {"question": "How high was gold in 2011?", "with_program": True},
    "PutFrame": {"name": "t", "arrow": to_arrow(pd.DataFrame({"x": [1]}))},
    "Execute": {"code": "1"},
    "PutFile": {"path": "a.txt"},
    "GetFile": {"path": "a.txt"},
}
# The first two make what the tenant has not; the window of an unknown conversation is empty, as a test below says.
ELSEWHERE = frozenset({"memory.AppendTurn", "memory.RecordFeedback", "memory.GetWindow"})
METHODS = [
    method
    for domain in DOMAINS
    for method in contract(domain).methods.values()
    if access_of(method).scope is Scope.TENANT
    and access_of(method).resource in NAMED
    and f"{method.service}.{method.name}" not in ELSEWHERE
]


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def things(stack: tuple[Endpoints, Clients]) -> dict[str, str]:
    """The ids of what tenant a has: a run with its conversation and table, a session and a queued rollout."""
    _, clients = stack
    with calling(A):
        request = planner.RunRequest(
            question="What was the highest close of Apple in 2019?", protocol=PROTOCOL_RESEARCH
        )
        events = list_logged([reply.event async for reply in clients.planner.run(request, timeout_s=90)])
        assert events[-1].finished.stop_reason == STOP_REASON_FINISHED
        (sheet, *_) = [item.sheet.id for item in events[-1].finished.material if item.HasField("sheet")]
        session = (await clients.sandbox.create_session(sandbox.CreateSessionRequest(), timeout_s=30)).session_id
        rollout = planner.RolloutRequest(request_id="ro_of_a", tasks=[planner.RolloutTask(question="q")], group_size=1)
        submitted = await clients.planner.submit_rollout(planner.SubmitRolloutRequest(rollout=rollout))
    return {
        "run_id": events[0].run_id,
        "conversation_id": events[0].started.conversation_id,
        "sheet_id": sheet,
        "sheet_ids": sheet,
        "session_id": session,
        "rollout_id": submitted.rollout_id,
    }


async def ask(clients: Clients, method: Method, things: dict[str, str]) -> None:
    """Call a method about what tenant a has, and take its first response."""
    name = access_of(method).resource
    value: Any = [things[name]] if name == "sheet_ids" else things[name]
    request = method.request_type(**{name: value}, **VALID.get(method.name, {}))
    async for _ in getattr(clients, method.service).stream(method, once(request), 30):
        return


@pytest.mark.parametrize("call", [B, OPERATOR], ids=["other", "default"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
async def test_no_rpc_reaches_another_tenants_thing(
    stack: tuple[Endpoints, Clients], things: dict[str, str], method: Method, call: Call
) -> None:
    with calling(call), pytest.raises(NotFound):
        await ask(stack[1], method, things)


async def test_what_is_tenant_as_is_there_for_tenant_a(
    stack: tuple[Endpoints, Clients], things: dict[str, str]
) -> None:
    clients = stack[1]
    with calling(A):
        for name in ("GetRun", "WatchRun", "ReplayRun"):
            await ask(clients, contract("planner").methods[name], things)
        for name in ("GetTable", "GetSheet", "ExportTable", "RunSql"):
            await ask(clients, contract("datafetch").methods[name], things)
        for name in ("ListVariables", "ListFiles", "Execute"):
            await ask(clients, contract("sandbox").methods[name], things)
        turns = await clients.memory.list_turns(memory.ListTurnsRequest(conversation_id=things["conversation_id"]))
        assert [turn.run_id for turn in turns.turns] == [things["run_id"]]
        runs = (await clients.planner.list_runs(planner.ListRunsRequest())).runs
        assert [run.run_id for run in runs] == [things["run_id"]]


async def test_lists_hold_nothing_of_another_tenant(stack: tuple[Endpoints, Clients], things: dict[str, str]) -> None:
    clients = stack[1]
    with calling(B):
        assert not (await clients.planner.list_runs(planner.ListRunsRequest())).runs
        assert not (await clients.memory.list_conversations(memory.ListConversationsRequest())).conversations
        window = await clients.memory.get_window(memory.GetWindowRequest(conversation_id=things["conversation_id"]))
        assert not window.turns
    runs = (await clients.planner.list_runs(planner.ListRunsRequest(page_size=1000))).runs
    assert things["run_id"] not in {run.run_id for run in runs}


async def test_a_tenants_table_cannot_be_taken_by_its_reference(
    stack: tuple[Endpoints, Clients], things: dict[str, str]
) -> None:
    clients = stack[1]
    with calling(A):
        ref = (await clients.datafetch.get_sheet(datafetch.GetSheetRequest(sheet_id=things["sheet_id"]))).sheet.data
    for call in (B, OPERATOR):
        for key in (ref.key, f"tenants/fund-7/{ref.key}"):
            stolen = type(ref)(key=key, size_bytes=ref.size_bytes, sha256=ref.sha256, content_type=ref.content_type)
            with calling(call), pytest.raises(NotFound):
                await clients.datafetch.import_table(datafetch.ImportTableRequest(title="t", data=stolen))


async def test_users_do_not_pause_the_model_of_all(stack: tuple[Endpoints, Clients]) -> None:
    with calling(B), pytest.raises(PermissionDenied):
        await stack[1].policy.pause_generation(policy.PauseGenerationRequest(model="rules"))
