"""Test what every engine must survive: leaving callers, deadlines, a dying engine, an endpoint that misbehaves."""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import DeadlineExceeded, DependencyFailed, Internal, NotReady
from fathom.core.ids import new_id
from fathom.core.retry import RetryPolicy
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.messages import Completion, Sampling
from fathom.domain.chat.proto import message_to_proto, sampling_to_proto, tool_spec_to_proto
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.policy.config import Config
from fathom.services.policy.model import Request
from fathom.services.policy.server import PolicyServicer
from fathom.transport.rpc.service import Service
from tests.integration.policy.conftest import Contender
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
# Long enough to be interrupted on any machine; it still ends by itself when the interruption fails.
ENDLESS = Sampling(max_tokens=700, temperature=0.0)

ATTEMPTS = 4
only_endpoints = pytest.mark.parametrize("contender", ["openai"], indirect=True)


def request(contender: Contender, case: str = "long", **fields: Any) -> Request:
    return Request(**{"request_id": new_id("t"), "model": "", **contender.cases[case], "sampling": ENDLESS, **fields})


async def collect(contender: Contender, asked: Request, remaining_s: Any = lambda: None) -> list[Any]:
    return [item async for item in contender.engine.generate(asked, remaining_s)]


async def test_leaving_stops_the_engine(contender: Contender) -> None:
    items = contender.engine.generate(request(contender), lambda: None)
    assert await anext(items)
    assert contender.running() > 0
    await items.aclose()
    await contender.idle()


async def test_the_last_of_two_callers_stops_the_engine(contender: Contender) -> None:
    asked = request(contender)
    one, two = (contender.engine.generate(asked, lambda: None) for _ in range(2))
    assert await anext(one) == await anext(two)
    await one.aclose()
    assert contender.running() > 0
    await two.aclose()
    await contender.idle()


async def test_the_deadline_stops_the_engine(contender: Contender) -> None:
    if not contender.endless:
        with pytest.raises(DeadlineExceeded):
            await collect(contender, request(contender), lambda: 0.0)
        return await contender.idle()
    # Some tokens have been sampled by then, and by no means all.
    end = time.monotonic() + 0.2
    with pytest.raises(DeadlineExceeded) as raised:
        await collect(contender, request(contender), lambda: max(0.0, end - time.monotonic()))
    assert raised.value.metadata["culprit"] == "policy"
    await contender.idle()


async def test_a_crash_is_typed_and_the_next_one_is_served(contender: Contender) -> None:
    before = await collect(contender, request(contender, "call"))
    asked = request(contender)
    with contender.crash(), pytest.raises((Internal, DependencyFailed, NotReady)) as raised:
        await collect(contender, asked)
    assert raised.value.message
    await contender.idle()
    after = await eventually(  # an engine in a process of its own is started again
        lambda: collect(contender, request(contender, "call")),
        within_s=240,
        every_s=0.2,
        ignoring=(NotReady, DependencyFailed),
    )
    assert after[-1].text == before[-1].text
    assert after[-1].sampled_token_ids == before[-1].sampled_token_ids
    # What failed is not remembered: the same request id runs again.
    again = await collect(contender, asked)
    assert isinstance(again[-1], Completion)


@asynccontextmanager
async def door(contender: Contender) -> AsyncIterator[Clients]:
    """The same engine behind gRPC."""

    # The engine is shared by all tests of its kind: neither started nor closed by this door.
    async def nothing() -> None:
        return None

    runtime = Runtime(store_url="memory://", grace_s=0.1, log_level="error")
    service = Service("policy", PolicyServicer(contender.engine, Config()), nothing, nothing)
    async with dependencies("policy", runtime) as deps, hosting(service, deps, runtime) as hosted:
        await hosted.warm
        clients = Clients({"policy": hosted.url}, Telemetry("test", stream=io.StringIO()), policy=RetryPolicy(ATTEMPTS))
        try:
            yield clients
        finally:
            await clients.close()


def to_proto(asked: Request) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        request_id=asked.request_id,
        messages=[message_to_proto(message) for message in asked.messages],
        tools=[tool_spec_to_proto(tool) for tool in asked.tools],
        tool_format=pb.TOOL_FORMAT_TAGS if asked.tool_format == "tags" else pb.TOOL_FORMAT_HERMES,
        sampling=sampling_to_proto(asked.sampling),
    )


async def test_the_same_over_grpc(contender: Contender) -> None:
    async with door(contender) as clients:
        asked = request(contender, "call", sampling=Sampling(temperature=0.0))
        events = [event async for event in clients.policy.generate(to_proto(asked))]
        completion = events[-1].completion
        assert "".join(event.delta.text for event in events[:-1]) == completion.text
        assert completion.exact is contender.exact
        assert bool(completion.log_probs) is contender.exact
        direct = await collect(contender, asked)
        assert tuple(completion.sampled_token_ids) == direct[-1].sampled_token_ids
        running = clients.policy.generate(to_proto(request(contender)))
        await anext(running)
        await running.aclose()
        await contender.idle()


@only_endpoints
@pytest.mark.parametrize("faults", [["429"], ["500"], ["503", "429"], ["garbage"], ["cut"], ["silence"]])
async def test_what_an_endpoint_does_wrong_is_retried_or_typed(contender: Contender, faults: list[str]) -> None:
    """Before the first piece the client tries again, after it the service."""
    [served] = contender.endpoints
    async with door(contender) as clients:
        served.faults[:] = faults
        asked = to_proto(request(contender, "short", sampling=Sampling()))
        if faults == ["cut"]:
            # Broken off after its first piece: asked for again, and what follows goes on where it broke off.
            events = [event async for event in clients.policy.generate(asked)]
            assert "".join(event.delta.text for event in events) == events[-1].completion.text
        else:
            events = [event async for event in clients.policy.generate(asked)]
        assert events[-1].completion.text == "Yes, the fox is red."
        await contender.idle()


@only_endpoints
async def test_an_endpoint_that_goes_on_failing_is_given_up(contender: Contender) -> None:
    [served] = contender.endpoints
    async with door(contender) as clients:
        # More than any bounded retry can use up; what is left tells how many it made.
        served.faults[:] = ["500"] * 50
        with pytest.raises(DependencyFailed):
            await clients.policy.generate(to_proto(request(contender, "short"))).__anext__()
        assert 50 - len(served.faults) == ATTEMPTS
        served.faults.clear()
        await contender.idle()
