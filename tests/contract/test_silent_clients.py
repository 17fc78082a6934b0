"""A client that never reads its stream: what is made for it waits, others are served, and its end ends the handler."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.core.identity import ANY_SERVICE, OPERATOR
from fathom.transport.rpc.contract import contract
from tests.contract import mirror
from tests.contract.conftest import TOKENS
from tests.contract.test_transports import House, invoke
from tests.support.waiting import eventually, settle

pytestmark = pytest.mark.asyncio(loop_scope="session")

WATCH = contract("planner").methods["WatchRollout"]
GET = contract("planner").methods["GetRun"]
# Far more than the buffers of two ends of a connection hold.
ENDLESS = 1_000_000


async def test_what_is_streamed_to_a_client_that_never_reads_waits_and_takes_no_memory(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "STREAMED", ENDLESS)
    mirrors, connect = house
    seen = mirrors["planner"].seen
    token, before = TOKENS.sign("silent", ANY_SERVICE, role=OPERATOR, tenant="default"), len(seen)
    url = connect("grpc").planner.transport._target  # type: ignore[attr-defined]
    channel = grpc.aio.insecure_channel(url)
    stub = channel.unary_stream(
        WATCH.path,
        request_serializer=planner.WatchRolloutRequest.SerializeToString,
        response_deserializer=planner.WatchRolloutResponse.FromString,
    )
    request = planner.WatchRolloutRequest(rollout_id="ro-1")
    calls = [stub(request, timeout=60, metadata=(("authorization", f"Bearer {token}"),)) for _ in range(4)]
    try:
        await eventually(lambda: len(seen) > before)

        async def has_stalled() -> bool:
            made = len(seen)
            # A unary call of another client takes many turns of the loop, in which a stream that flows would go on.
            for _ in range(20):
                await invoke(connect("grpc"), GET)
            await settle()
            return len(seen) - made <= 20

        await eventually(has_stalled)
        assert len(seen) - before < ENDLESS / 10
    finally:
        for call in calls:
            call.cancel()
        await channel.close()
    await eventually(lambda: not [task for task in asyncio.all_tasks() if "WatchRollout" in repr(task)])
    del seen[before:]
