"""The front's end of the socket: a supervisor that breaks the protocol is lost, and its word is bounded."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.call import Call
from fathom.core.errors import NotFound
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.front.supervisor_process import SupervisorLost, SupervisorProcess
from fathom.services.sandbox.ipc import messages as say
from fathom.services.sandbox.ipc.channel import DatagramChannel, Message
from fathom.services.sandbox.ipc.memfd import create_sealed_memory
from fathom.services.sandbox.server import SandboxServicer
from fathom.services.sandbox.supervisor.servicer import SupervisorServicer
from fathom.transport.store import open_store
from tests.support.waiting import eventually

FAILURE = say.RECORDS[say.FAILURE].dump_json(say.to_failure(NotFound("session", "x")))
LISTED = pb.ListVariablesResponse(variables=[pb.Variable(name="a")])


class Scripted:
    """A process that is only asked whether it was killed."""

    returncode = None
    killed = False

    def kill(self) -> None:
        self.killed = True


@contextmanager
def answering(*replies: tuple[str, bytes]) -> Iterator[tuple[SupervisorProcess, Scripted, list[Message]]]:
    """A process handle whose peer answers every request with these kinds and bodies."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link, process, got = SupervisorProcess(SimpleNamespace(), lambda *_: None, lambda: None), Scripted(), []

    def answer(message: Message) -> None:
        got.append(message)
        if message.kind in say.METHODS:
            for kind, body in replies:
                peer.post(Message(message.number, kind, body))

    peer = DatagramChannel(theirs, answer, lambda: None)
    link._process = process  # type: ignore[assignment]
    link._channel = DatagramChannel(ours, link._take, link._handle_loss)
    yield link, process, got
    link._channel.close()
    peer.close()


async def list_variables(link: SupervisorProcess) -> pb.ListVariablesResponse:
    request = pb.ListVariablesRequest(session_id="s").SerializeToString()
    return await link.call("ListVariables", request, pb.ListVariablesResponse, tenant="a")


async def test_a_response_and_an_error_arrive_as_they_were_sent() -> None:
    with answering((say.RESPONSE, LISTED.SerializeToString()), (say.END, b"")) as (link, process, got):
        assert await list_variables(link) == LISTED
        assert [(message.kind, message.tenant) for message in got] == [("ListVariables", "a")]
        assert not process.killed
    with answering((say.FAILURE, FAILURE)) as (link, process, _):
        with pytest.raises(NotFound, match="no session 'x'"):
            await list_variables(link)
        assert not process.killed


@pytest.mark.parametrize(
    "replies",
    [
        [(say.RESPONSE, b"\xff\xff")],
        [(say.END, b"")],
        [(say.RESPONSE, b""), (say.RESPONSE, b"")],
        [(say.FAILURE, b"{}")],
        [(say.FAILURE, FAILURE.replace(b"null", b'"1"'))],
        [(say.MEASUREMENT, b'{"name": "cells", "label": "ok", "value": 1.0}')],
        [("Execute", b"")],
    ],
)
async def test_a_supervisor_that_breaks_the_protocol_is_killed(replies: list[tuple[str, bytes]]) -> None:
    with answering(*replies) as (link, process, _):
        with pytest.raises(SupervisorLost):
            await list_variables(link)
        assert process.killed


async def test_a_reply_with_a_memory_file_is_closed_and_ends_the_supervisor() -> None:
    with answering() as (link, process, _):
        memory = create_sealed_memory("reply", b"rows")
        link._take(Message(1, say.RESPONSE, b"", memory))
        assert process.killed
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(memory.descriptor)


async def test_fields_beyond_the_contract_are_not_passed_on() -> None:
    unknown = pb.ListVariablesResponse.FromString(LISTED.SerializeToString() + b"\x82\x7d\x01x")
    assert unknown != LISTED
    with answering((say.RESPONSE, unknown.SerializeToString()), (say.END, b"")) as (link, _, _):
        assert (await list_variables(link)).SerializeToString() == LISTED.SerializeToString()


async def test_a_reader_that_stops_cancels_its_request() -> None:
    event = pb.ExecuteResponse(output=pb.OutputChunk(text="x")).SerializeToString()
    with answering((say.RESPONSE, event)) as (link, process, got):
        events = link.stream("Execute", b"", pb.ExecuteResponse)
        await anext(events)
        await events.aclose()
        await eventually(lambda: len(got) == 2)
        assert (got[1].number, got[1].kind) == (got[0].number, say.CANCEL)
        assert not process.killed


async def test_a_reference_of_the_supervisors_own_is_not_passed_on() -> None:
    async def execute(request: pb.ExecuteRequest) -> Any:
        display = pb.Display(media_type="application/json", data=b"1")
        display.ref.key = "runs/of/another/tenant"
        yield pb.ExecuteResponse(sequence=7, display=display)

    servicer = SandboxServicer(SimpleNamespace(execute=execute), open_store("memory://"), Config())  # type: ignore[arg-type]
    request = pb.ExecuteRequest(session_id="s", code="1")
    (event,) = [event async for event in servicer.Execute(request, Call.new())]
    assert (event.sequence, event.display) == (1, pb.Display(media_type="application/json", data=b"1"))


async def test_html_is_cleaned_in_the_front_and_what_is_no_drawing_becomes_a_note() -> None:
    async def execute(request: pb.ExecuteRequest) -> Any:
        yield pb.ExecuteResponse(
            display=pb.Display(media_type="text/html", data=b"<b onclick='no()'>x</b><script>no()")
        )
        yield pb.ExecuteResponse(display=pb.Display(media_type="image/svg+xml", data=b"<html/>"))

    servicer = SandboxServicer(SimpleNamespace(execute=execute), open_store("memory://"), Config())  # type: ignore[arg-type]
    try:
        request = pb.ExecuteRequest(session_id="s", code="1")
        page, note = [event async for event in servicer.Execute(request, Call.new())]
    finally:
        servicer.close()
    assert b"<div><b>x</b></div>" in page.display.data
    assert b"no()" not in page.display.data
    assert note.output.text == "\n[… image/svg+xml left out: display: is no image/svg+xml: its root is not svg …]\n"


@pytest.mark.parametrize("servicer", [SandboxServicer, SupervisorServicer])
def test_both_ends_answer_every_method_of_the_contract(servicer: type) -> None:
    assert not [name for name in say.METHODS if not callable(getattr(servicer, name, None))]
