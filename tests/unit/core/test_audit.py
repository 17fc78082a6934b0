"""Writes and refusals leave a line in the log that says who, what, which and how it ended."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from google.protobuf.message import Message

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import FathomError, NotFound, PermissionDenied
from fathom.core.identity import ANY_SERVICE, USER, Credentials, Tokens, make_keys
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.door import TokenDoor
from fathom.transport.rpc.service import Service

TOKENS = Tokens(make_keys()[0])


class Peer:
    """Memory and policy in one: it deletes one conversation and lists its turns."""

    async def DeleteConversation(self, request: Any, call: Call) -> Message:
        if request.conversation_id != "conv_1":
            raise NotFound("conversation", request.conversation_id)
        return memory.DeleteConversationResponse(turns=1)

    async def ListTurns(self, request: Any, call: Call) -> Message:
        return memory.ListTurnsResponse()

    async def PauseGeneration(self, request: Any, call: Call) -> Message:
        return policy.PauseGenerationResponse()


class House:
    """A service behind a door, and what it has logged."""

    def __init__(self, service: str) -> None:
        self._log = io.StringIO()
        telemetry = self.telemetry = Telemetry(service, stream=self._log)
        dispatcher = Dispatcher(Service(service, Peer()), telemetry, door=TokenDoor(service, TOKENS))
        dispatcher.ready = True
        self._clients = lambda token: Clients(
            {service: f"inproc://{service}"},
            telemetry,
            dispatchers={service: dispatcher},
            credentials=Credentials(lambda _: token, 1e9),
        )

    def clients(self, token: str = "") -> Clients:
        return self._clients(token or TOKENS.sign("alice", ANY_SERVICE, role=USER, tenant="fund-7"))

    def audit(self) -> list[tuple[str, ...]]:
        lines = [json.loads(line) for line in self._log.getvalue().splitlines()]
        fields = ("tenant", "principal", "rpc", "resource", "outcome")
        return [tuple(line[field] for field in fields) for line in lines if line["event"] == "audit"]


async def fail(call: Any) -> FathomError:
    with pytest.raises(FathomError) as failed:
        await call
    return failed.value


async def test_an_answered_call_counts_as_ok() -> None:
    house = House("memory")
    await house.clients().memory.list_turns(memory.ListTurnsRequest(conversation_id="conv_1"))
    labels = {"service": "memory", "method": "ListTurns", "transport": "inproc", "lane": "interactive", "code": "OK"}
    assert house.telemetry.registry.get_sample_value("fathom_rpc_handled_total", labels) == 1


async def test_calls_are_counted_and_timed_by_lane() -> None:
    house = House("memory")
    for lane in (Lane.TRAINING, Lane.TRAINING, Lane.INTERACTIVE):
        with calling(Call.new(lane=lane, timeout_s=60)):
            await house.clients().memory.list_turns(memory.ListTurnsRequest(conversation_id="conv_1"))
            await fail(
                house.clients().memory.delete_conversation(memory.DeleteConversationRequest(conversation_id="x"))
            )
    registry, labels = house.telemetry.registry, {"service": "memory", "transport": "inproc"}
    for lane, count in ((Lane.TRAINING, 2), (Lane.INTERACTIVE, 1)):
        listed = {**labels, "method": "ListTurns", "lane": lane.value}
        deleted = {**labels, "method": "DeleteConversation", "lane": lane.value}
        assert registry.get_sample_value("fathom_rpc_handled_total", {**listed, "code": "OK"}) == count
        assert registry.get_sample_value("fathom_rpc_handled_total", {**deleted, "code": "NOT_FOUND"}) == count
        assert registry.get_sample_value("fathom_rpc_seconds_count", listed) == count


async def test_writes_are_logged_however_they_end_and_reads_only_when_refused() -> None:
    house = House("memory")
    clients = house.clients().memory
    await clients.delete_conversation(memory.DeleteConversationRequest(conversation_id="conv_1"))
    await fail(clients.delete_conversation(memory.DeleteConversationRequest(conversation_id="conv_2")))
    await clients.list_turns(memory.ListTurnsRequest(conversation_id="conv_1"))
    assert house.audit() == [
        ("fund-7", "alice", "memory.DeleteConversation", "conv_1", "OK"),
        ("fund-7", "alice", "memory.DeleteConversation", "conv_2", "NOT_FOUND"),
    ]


async def test_refusals_at_the_gate_and_at_the_door_are_logged() -> None:
    house = House("policy")
    request = policy.PauseGenerationRequest(model="main")
    assert isinstance(await fail(house.clients().policy.pause_generation(request)), PermissionDenied)
    assert (await fail(house.clients("forged").policy.pause_generation(request))).code == "UNAUTHENTICATED"
    assert house.audit() == [
        ("fund-7", "alice", "policy.PauseGeneration", "main", "PERMISSION_DENIED"),
        ("default", "", "policy", "", "UNAUTHENTICATED"),
    ]
