"""The memory of acting calls: outcomes come again, within bounds of bytes, count and age."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, Gauge

from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.core.call import Call
from fathom.core.errors import Conflict, FailedPrecondition, Overloaded
from fathom.transport.rpc.contract import Method, contract
from fathom.transport.rpc.idempotency import REQUEST_BYTES, Idempotency
from fathom.transport.rpc.interceptors import Exchange
from tests.support.waiting import eventually

PUT = contract("sandbox").methods["PutFile"]
OPEN = contract("sandbox").methods["CreateSession"]


class Service:
    """Answers with as many bytes as it is told; counts how often it acts."""

    def __init__(self, *, reply_bytes: int = 0, max_bytes: int = 1_000_000) -> None:
        self.acted, self.now, self.reply_bytes = 0, 0.0, reply_bytes
        # Closed, the gate keeps a call under way for as long as a test wants.
        self.gate = asyncio.Event()
        self.gate.set()
        self.gauge = Gauge("held", "held", registry=CollectorRegistry())
        self.idempotency = Idempotency(self.gauge, max_bytes=max_bytes, ttl_s=600, clock=lambda: self.now)
        self.refusal: Exception | None = None

    async def handle(self, exchange: Exchange) -> Message:
        self.acted += 1
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        return sandbox.CreateSessionResponse(session_id=f"{self.acted}" + "x" * self.reply_bytes)

    async def ask(self, request: Message, tenant: str = "default", method: Method = OPEN) -> Message:
        exchange = Exchange(method, request, Call("r", tenant=tenant), "inproc")
        return await self.idempotency.answer(exchange, self.handle)


def opening(name: str, cells: int = 0) -> sandbox.CreateSessionRequest:
    return sandbox.CreateSessionRequest(request_id=name, limits=sandbox.Limits(cells=cells))


async def test_a_repetition_gets_the_first_outcome_and_another_request_is_refused() -> None:
    service = Service()
    first = await service.ask(opening("a"))
    assert await service.ask(opening("a")) == first
    assert service.acted == 1
    with pytest.raises(Conflict):
        await service.ask(opening("a", cells=2))
    # Request ids are a tenant's own.
    await service.ask(opening("a"), tenant="another")
    assert service.acted == 2


async def test_duplicates_wait_for_the_call_under_way_also_for_its_failure() -> None:
    service = Service()
    service.gate.clear()
    running = [asyncio.create_task(service.ask(opening("a"))) for _ in range(3)]
    await eventually(lambda: service.acted)
    # The same id with other content is a mistake of the caller's, whatever comes of the first.
    with pytest.raises(Conflict):
        await service.ask(opening("a", cells=2))
    service.refusal = Overloaded("too much", retry_after_s=1)
    service.gate.set()
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Overloaded] * 3
    service.refusal = None
    await service.ask(opening("a"))
    # The failure was not kept, so this one acts.
    assert service.acted == 2


async def test_large_requests_cost_no_more_than_their_hash() -> None:
    service = Service()
    for number in range(50):
        await service.ask(sandbox.PutFileRequest(request_id=f"r{number}", content=b"x" * 1_000_000), method=PUT)
    # 50 MB went through; what is held of each is its hash and name.
    assert service.idempotency.held_bytes < 50 * (REQUEST_BYTES + 64)


async def test_replies_are_held_within_their_bytes_and_what_acted_never_acts_again() -> None:
    service = Service(reply_bytes=30_000, max_bytes=100_000)
    for number in range(20):
        await service.ask(opening(f"r{number}"))
        assert service.idempotency.held_bytes <= 100_000 + 20 * REQUEST_BYTES
        assert service.gauge._value.get() == service.idempotency.held_bytes
    # Its reply was dropped for room, but that it acted is known: to act twice would be worse than to refuse.
    with pytest.raises(FailedPrecondition, match="carried out before"):
        await service.ask(opening("r0"))
    # The last reply is still held.
    await service.ask(opening("r19"))
    assert service.acted == 20


async def test_a_reply_that_is_too_large_to_hold_is_not_held_and_its_request_is_not_repeated() -> None:
    service = Service(reply_bytes=2_000, max_bytes=1_000)
    assert len((await service.ask(opening("a"))).SerializeToString()) > 2_000
    assert service.idempotency.held_bytes == REQUEST_BYTES
    with pytest.raises(FailedPrecondition) as done:
        await service.ask(opening("a"))
    assert done.value.metadata["field"] == "request_id"
    assert service.acted == 1


async def test_what_is_older_than_its_time_is_dropped_by_the_next_call() -> None:
    service = Service(reply_bytes=50_000)
    for number in range(5):
        await service.ask(opening(f"r{number}"))
    assert service.idempotency.held_bytes > 250_000
    # Exactly the time to live.
    service.now = 600.0
    await service.ask(opening("late"))
    assert service.idempotency.held_bytes < 51_000
    await service.ask(opening("r0"))
    # r0 has expired, so it acts again: five, the late one, and this.
    assert service.acted == 7
