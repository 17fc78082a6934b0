"""The contract over every transport: each RPC × grpc, nats, inproc, with results, errors, deadlines, cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.message import Message

from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.clients.client import Client
from fathom.clients.transport import StreamsNeedGrpc
from fathom.core import errors
from fathom.core.call import Call, Lane, calling
from fathom.transport.rpc.contract import DOMAINS, MAX_MESSAGE_BYTES, Method, contract, once
from tests.contract.conftest import Connect
from tests.contract.mirror import STREAMED, Mirror, sample

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRANSPORTS = ("grpc", "nats", "inproc")
METHODS = [method for domain in DOMAINS for method in contract(domain).methods.values()]
House = tuple[dict[str, Mirror], Connect]


def cases(methods: list[Method]) -> list[Any]:
    """Every method with every transport that carries it."""
    return [
        pytest.param(method, transport, id=f"{method.service}.{method.name}-{transport}")
        for method in methods
        for transport in TRANSPORTS
        # Streams go over gRPC alone; the last test here shows what a caller over NATS is told.
        if method.unary or transport != "nats"
    ]


async def invoke(clients: Any, method: Method, timeout_s: float = 20.0) -> list[Message]:
    """Calls with a sample request; all responses."""
    client: Client = getattr(clients, method.service)
    request = sample(method.request_type)
    if method.acts and not method.client_streaming:
        # Without a key, as callers send it: giving one is the client's own work.
        request.request_id = ""  # type: ignore[attr-defined]
    if method.unary:
        return [await client.unary(method, request, timeout_s)]
    argument = once(request) if method.client_streaming else request
    return [response async for response in client.stream(method, argument, timeout_s)]


@pytest.mark.parametrize(("method", "transport"), cases(METHODS))
async def test_result_and_context_arrive_whole(house: House, method: Method, transport: str) -> None:
    mirrors, connect = house
    clients = connect(transport, tenant="fund-7")
    with calling(Call.new(lane=Lane.TRAINING, tenant="fund-7", timeout_s=20)):
        responses = await invoke(clients, method)
    assert responses == [sample(method.response_type)] * (STREAMED if method.server_streaming else 1)
    name, request, call = mirrors[method.service].seen[-1]
    assert (name, call.lane, call.tenant) == (method.name, Lane.TRAINING, "fund-7")
    assert call.traceparent.startswith("00-")
    remaining = call.remaining_s()
    assert remaining is not None
    # Deadlines travel as the time left, since clocks differ: on arrival there is less of it, and never more.
    assert 0 < remaining <= 20
    if method.acts and not method.client_streaming:
        assert request.request_id, "the client gives an idempotency key to everything that acts"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("method", "transport"), cases(METHODS))
async def test_errors_keep_type_and_details(house: House, method: Method, transport: str) -> None:
    _, connect = house
    with pytest.raises(errors.InvalidField) as invalid:
        await invoke(connect(transport, tenant="invalid"), method)
    assert (invalid.value.field, invalid.value.message) == ("items[3].name", "items[3].name: is wrong")
    with pytest.raises(errors.Overloaded) as busy:
        await invoke(connect(transport, tenant="busy"), method)
    assert busy.value.retry_after_s == 0.25


@pytest.mark.parametrize(("method", "transport"), cases(METHODS))
async def test_deadline_stops_the_handler(house: House, method: Method, transport: str) -> None:
    mirrors, connect = house
    mirror = mirrors[method.service]
    # All methods of a service share one mirror, and calls of earlier cases have left their marks in it.
    for queue in (mirror.waiting, mirror.cancelled):
        while not queue.empty():
            queue.get_nowait()
    # On a busy machine a short deadline can pass before the call has reached its handler: then a longer one.
    for timeout_s in (0.05, 0.5, 5.0):
        with pytest.raises(errors.DeadlineExceeded) as late:
            await invoke(connect(transport, tenant="slow"), method, timeout_s=timeout_s)
        assert late.value.code == "DEADLINE_EXCEEDED"
        if not mirror.waiting.empty():
            break
    # The end of an earlier case's call may be told only now: its caller does not wait for it.
    async with asyncio.timeout(5):
        while await mirror.cancelled.get() != method.name:
            pass


SEARCH = contract("retrieval").methods["Search"]
EXECUTE = contract("sandbox").methods["Execute"]


@pytest.mark.parametrize(("method", "transport"), cases([SEARCH, EXECUTE]))
async def test_not_found_names_the_nearest_and_internal_hides_the_cause(
    house: House, method: Method, transport: str
) -> None:
    _, connect = house
    with pytest.raises(errors.NotFound) as absent:
        await invoke(connect(transport, tenant="absent"), method)
    assert absent.value.nearest == ("y", "z")
    with pytest.raises(errors.Internal) as broken:
        await invoke(connect(transport, tenant="broken"), method)
    assert "secret" not in broken.value.message


@pytest.mark.parametrize(("method", "transport"), cases([SEARCH, EXECUTE]))
async def test_a_timeout_inside_the_handler_is_not_blamed_on_the_callers_deadline(
    house: House, method: Method, transport: str
) -> None:
    _, connect = house
    with pytest.raises(errors.Internal) as broken:
        await invoke(connect(transport, tenant="impatient"), method)
    assert broken.value.code == "INTERNAL"
    assert f"{method.service}.{method.name} failed inside (TimeoutError)" in broken.value.message
    assert (broken.value.metadata["culprit"], broken.value.metadata["cause"]) == (method.service, "TimeoutError")
    assert "secret" not in broken.value.message


@pytest.mark.parametrize(("method", "transport"), [(SEARCH, "grpc"), (SEARCH, "inproc"), (EXECUTE, "grpc")])
async def test_cancellation_reaches_the_handler(house: House, method: Method, transport: str) -> None:
    mirrors, connect = house
    mirror = mirrors[method.service]
    while not mirror.waiting.empty():
        mirror.waiting.get_nowait()
    running = asyncio.create_task(invoke(connect(transport, tenant="slow"), method))
    await asyncio.wait_for(mirror.waiting.get(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # A call that an earlier test gave up may reach its handler's end only now, on a slow machine.
    while await asyncio.wait_for(mirror.cancelled.get(), 30) != method.name:
        pass


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_large_payload_arrives_and_too_large_one_is_refused(house: House, transport: str) -> None:
    mirrors, connect = house
    clients = connect(transport)
    # Over NATS it goes by way of the object store, over gRPC in the message itself.
    large = retrieval.SearchRequest(queries=["x" * 2_000_000])
    await clients.retrieval.search(large)
    assert mirrors["retrieval"].seen[-1][1] == large
    with pytest.raises(errors.PayloadTooLarge) as refused:
        await clients.retrieval.search(retrieval.SearchRequest(queries=["x" * (MAX_MESSAGE_BYTES + 1)]))
    assert refused.value.metadata["limit_bytes"] == str(MAX_MESSAGE_BYTES)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_same_request_id_acts_once(house: House, transport: str) -> None:
    mirrors, connect = house
    clients, name = connect(transport), f"once-{transport}"
    from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox

    first = await clients.sandbox.create_session(sandbox.CreateSessionRequest(request_id=name))
    seen = len(mirrors["sandbox"].seen)
    assert await clients.sandbox.create_session(sandbox.CreateSessionRequest(request_id=name)) == first
    assert len(mirrors["sandbox"].seen) == seen
    # The same key for another request: an error, since the stored outcome answers a question that was not asked.
    other = sandbox.CreateSessionRequest(request_id=name, limits=sandbox.Limits(cells=1))
    with pytest.raises(errors.Conflict):
        await clients.sandbox.create_session(other)


async def test_streams_need_grpc(house: House) -> None:
    _, connect = house
    with pytest.raises(StreamsNeedGrpc, match="grpc://"):
        await invoke(connect("nats"), EXECUTE)
