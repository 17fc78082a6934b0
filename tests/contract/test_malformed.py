"""Requests that no handler could make sense of are INVALID_ARGUMENT and name what is wrong, over every transport."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.clients.client import Client
from fathom.core import errors
from fathom.core.call import DEADLINE_HEADER, LANE_HEADER, REQUEST_ID_HEADER, TENANT_HEADER, Call
from fathom.core.identity import ANY_SERVICE, OPERATOR, SERVICE
from fathom.transport.rpc.contract import Method, contract, once
from fathom.transport.status import from_grpc
from tests.contract.conftest import TOKENS
from tests.contract.mirror import sample
from tests.contract.test_transports import METHODS, House

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Field 1 with a length that goes beyond the end.
BROKEN = b"\x0a\xff\xff\xff\xff\x0f"
TIMES = {
    "a nanosecond before the second": Timestamp(seconds=1, nanos=-1),
    "a whole second of nanoseconds": Timestamp(seconds=1, nanos=1_000_000_000),
    "before the year 1": Timestamp(seconds=-62_135_596_801),
    "after the year 9999": Timestamp(seconds=253_402_300_800),
    "the largest": Timestamp(seconds=2**63 - 1, nanos=2**31 - 1),
}


GET = contract("planner").methods["GetRun"]
TRANSPORTS = ["grpc", "nats", "inproc"]


async def send(url: str, method: Method, data: bytes) -> None:
    """Send bytes as they are; raise the typed error of the reply."""
    kinds = {(False, False): "unary_unary", (False, True): "unary_stream",
             (True, False): "stream_unary", (True, True): "stream_stream"}  # fmt: skip
    token = TOKENS.sign("fuzzer", ANY_SERVICE, role=OPERATOR, tenant="default")

    async def items() -> Any:
        yield data

    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        stub: Any = getattr(channel, kinds[method.client_streaming, method.server_streaming])(method.path)
        running = stub(
            items() if method.client_streaming else data, timeout=20, metadata=(("authorization", f"Bearer {token}"),)
        )
        try:
            if method.server_streaming:
                async for _ in running:
                    pass
            else:
                await running
        except grpc.aio.AioRpcError as error:
            raise from_grpc(error, method.service, method.name) from error


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.service}.{method.name}")
async def test_bytes_that_are_no_request_are_refused_by_type(house: House, method: Method) -> None:
    _, connect = house
    url = connect("grpc").endpoints[method.service]
    with pytest.raises(errors.InvalidField, match=method.request_type.DESCRIPTOR.full_name) as refused:
        await send(url, method, BROKEN)
    assert (refused.value.code, refused.value.field) == ("INVALID_ARGUMENT", "payload")


async def ask(client: Client, method: Method, request: Message) -> None:
    """Send a request to a method of any kind and take its responses."""
    if method.unary:
        await client.unary(method, request, 20.0)
        return
    async for _ in client.stream(method, once(request), 20.0):
        pass


def with_time(kind: type[Message], path: str, time: Timestamp) -> Message:
    """Return a request with this timestamp at a path."""
    request = kind()
    target: Any = request
    for name in path.split("."):
        target = getattr(target, name)
    target.CopyFrom(time)
    return request


TIMED = [
    ("datafetch", "Query", datafetch.QueryRequest, "as_of"),
    ("retrieval", "Search", retrieval.SearchRequest, "filter.published.start_time"),
    ("retrieval", "Ingest", retrieval.IngestRequest, "document.publish_time"),
    ("planner", "Run", planner.RunRequest, "as_of"),
    ("planner", "SubmitRollout", planner.SubmitRolloutRequest, "rollout.as_of"),
    ("memory", "AppendTurn", memory.AppendTurnRequest, "turn.end_time"),
]


@pytest.mark.parametrize("transport", ["grpc", "nats", "inproc"])
@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize(("service", "name", "kind", "path"), TIMED)
async def test_a_time_that_is_none_is_refused_by_its_path(
    house: House, service: str, name: str, kind: type[Message], path: str, time: Timestamp, transport: str
) -> None:
    _, connect = house
    method = contract(service).methods[name]
    if transport == "nats" and not method.unary:
        pytest.skip("streams need gRPC")
    client = getattr(connect(transport), service)
    with pytest.raises(errors.InvalidField) as refused:
        await ask(client, method, with_time(kind, path, time))
    assert refused.value.field.removesuffix(".nanos") == path


async def test_times_at_the_ends_of_the_calendar_are_times(house: House) -> None:
    _, connect = house
    for seconds, nanos in ((-62_135_596_800, 0), (253_402_300_799, 999_999_999), (0, 0)):
        request = datafetch.QueryRequest(as_of=Timestamp(seconds=seconds, nanos=nanos))
        assert await connect("grpc").datafetch.query(request)


@dataclass(frozen=True)
class Altered(Call):
    """A call that sends other headers than it has."""

    changes: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        return {**super().headers(), **self.changes}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((LANE_HEADER, value) for value in ("vip", "", "INTERACTIVE", "LANE_TRAINING", "0", "train ing")),
        *((DEADLINE_HEADER, value) for value in ("soon", "-1", "1.5", "")),
        *((TENANT_HEADER, value) for value in ("../fund-8", "fund-8=run_1", "", "a" * 129)),
        *((REQUEST_ID_HEADER, value) for value in ("a b", "runs/1", "a" * 129)),
    ],
)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_header_that_says_what_is_not_is_refused_by_its_name(
    house: House, transport: str, name: str, value: str
) -> None:
    mirrors, connect = house
    client, seen = connect(transport).planner, len(mirrors["planner"].seen)
    token = TOKENS.sign("service:gateway", "planner", role=SERVICE)
    call = Altered("req_1", deadline=time.monotonic() + 20, token=token, changes={name: value})
    with pytest.raises(errors.InvalidField) as refused:
        await client.transport.unary(GET, sample(GET.request_type), call)
    assert (refused.value.field, refused.value.code) == (name, "INVALID_ARGUMENT")
    assert len(mirrors["planner"].seen) == seen
