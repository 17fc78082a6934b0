"""Test what a call passes on its way to the handler: the trace that travels, and nothing that it does not need."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncGenerator

import pytest
from google.protobuf.message import Message

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.clients import Clients
from fathom.core.call import UNTRACED, Call, calling
from fathom.core.errors import NotFound
from fathom.core.telemetry import TRACEPARENT, Telemetry
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service

SENT = f"00-{'a' * 32}-{'b' * 16}-01"


class Servicer:
    """Answers a window, has no turns, and writes down the traces of its calls."""

    def __init__(self) -> None:
        self.traces: list[str] = []

    async def GetWindow(self, request: memory.GetWindowRequest, call: Call) -> Message:
        self.traces.append(call.traceparent)
        return memory.GetWindowResponse()

    async def ListTurns(self, request: memory.ListTurnsRequest, call: Call) -> Message:
        raise NotFound("conversation", request.conversation_id)


class House:
    """A service in this process, its clients, and its log."""

    def __init__(self) -> None:
        self.log, self.servicer = io.StringIO(), Servicer()
        telemetry = Telemetry("memory", stream=self.log)
        self.dispatcher = Dispatcher(Service("memory", self.servicer), telemetry)
        self.dispatcher.ready = True
        self.clients = Clients({"memory": "inproc://memory"}, telemetry, dispatchers={"memory": self.dispatcher})


@pytest.mark.parametrize("sent", [SENT, UNTRACED])
async def test_where_nothing_is_exported_the_trace_travels_as_it_came(sent: str) -> None:
    house = House()
    with calling(Call.new(traceparent=sent)):
        await house.clients.memory.get_window(memory.GetWindowRequest(conversation_id="c"))
    assert house.servicer.traces == [sent]


@pytest.mark.parametrize("sent", ["", "nonsense", f"00-{'0' * 32}-{'b' * 16}-01", f"{SENT}\r\nadmin: 1", SENT.upper()])
async def test_a_call_without_a_trace_begins_one(sent: str) -> None:
    house = House()
    for _ in range(2):
        with calling(Call.new(traceparent=sent)):
            await house.clients.memory.get_window(memory.GetWindowRequest(conversation_id="c"))
    assert all(TRACEPARENT.fullmatch(trace) and trace.endswith("-01") for trace in house.servicer.traces)
    assert len(set(house.servicer.traces)) == 2


async def test_the_log_of_a_failed_call_names_its_trace() -> None:
    house = House()
    with calling(Call.new(traceparent=SENT)), pytest.raises(NotFound):
        await house.clients.memory.list_turns(memory.ListTurnsRequest(conversation_id="c"))
    failed = [line for line in map(json.loads, house.log.getvalue().splitlines()) if line["event"] == "call failed"]
    assert [line["traceparent"] for line in failed] == [SENT]


def test_what_is_not_sampled_is_not_recorded_where_spans_are_exported() -> None:
    telemetry = Telemetry("memory", otlp_endpoint="http://127.0.0.1:9", log_level="critical")
    try:
        span, traceparent = telemetry.start_call("/service/Method", UNTRACED)
        assert (span.is_recording(), traceparent) == (False, UNTRACED)
        recorded, below = telemetry.start_call("/service/Method", SENT)
        assert recorded.is_recording()
        assert below.split("-")[1] == "a" * 32
        assert below != SENT
    finally:
        telemetry.close()


async def test_a_call_of_one_response_makes_no_generator_and_no_task() -> None:
    # Each of them, left behind after the response, is a task for the loop to end: they took half of a call's time.
    house, made = House(), list[str]()
    method = house.dispatcher.contract.methods["GetWindow"]
    before = sys.get_asyncgen_hooks()

    def note(generator: AsyncGenerator[object, None]) -> None:
        made.append(generator.__qualname__)  # type: ignore[attr-defined]
        if before.firstiter is not None:
            before.firstiter(generator)

    tasks = asyncio.all_tasks()
    sys.set_asyncgen_hooks(firstiter=note)
    try:
        call = house.dispatcher.admit({}, timeout_s=30.0)
        await house.dispatcher.answer(method, memory.GetWindowRequest(conversation_id="c"), call, "grpc")
    finally:
        sys.set_asyncgen_hooks(*before)
    assert made == []
    assert asyncio.all_tasks() == tasks
