"""Messages between front and supervisor: in order, whole, of bounded size; nonsense hangs up and leaks nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import socket

import pytest
from google.protobuf.message import DecodeError

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.errors import InvalidField, NotFound, Overloaded, PayloadTooLarge
from fathom.services.sandbox.ipc import channel
from fathom.services.sandbox.ipc import messages as say
from fathom.services.sandbox.ipc.channel import INLINE_BYTES, DatagramChannel, Message
from fathom.services.sandbox.ipc.memfd import create_sealed_memory
from tests.support.waiting import eventually


class End:
    """One end that keeps what it gets."""

    def __init__(self, end: socket.socket) -> None:
        self.got: asyncio.Queue[Message] = asyncio.Queue()
        self.lost = 0
        self.link = DatagramChannel(end, self.got.put_nowait, self._lose)

    def _lose(self) -> None:
        self.lost += 1


def ends() -> tuple[End, End]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return End(one), End(other)


def descriptors() -> int:
    # Sockets of earlier tests are closed by the collector, some time.
    gc.collect()  # sockets that an earlier test in this process has left
    return len(os.listdir("/proc/self/fd"))


async def test_messages_keep_their_order_and_their_bytes() -> None:
    held = descriptors()
    one, other = ends()
    # None, one, just inline, just over it and so by memory file, and large: two hundred times each, mixed.
    bodies = [b"x" * size for size in (0, 1, INLINE_BYTES, INLINE_BYTES + 1, 3_000_000)] * 200
    for number, body in enumerate(bodies):
        # 128 characters are the longest name of a tenant.
        one.link.post(Message(number, "Kind", body, tenant="t" * 128))
    for number, body in enumerate(bodies):
        assert await other.got.get() == Message(number, "Kind", body, tenant="t" * 128)
    await one.link.wait_for_room()
    one.link.close()
    # Who closes by itself is told of the loss; the other end notices by the hang-up.
    assert (one.lost, other.lost) == (1, 0)
    await hung_up(other)
    # No memory file of the large bodies is left open.
    assert descriptors() <= held, "earlier tests may close theirs meanwhile, and a leak only adds"


async def hung_up(end: End) -> None:
    await eventually(lambda: end.lost)


async def test_an_attachment_is_the_memory_itself_and_nobody_can_change_it() -> None:
    one, other = ends()
    one.link.post(Message(1, "Kind", b"y" * 100_000, create_sealed_memory("table", b"rows")))
    message = await other.got.get()
    assert message.attached is not None
    assert (message.body, message.attached.read()) == (b"y" * 100_000, b"rows")
    # Sealed: neither end can change what the other reads.
    with pytest.raises(PermissionError):
        os.write(message.attached.descriptor, b"more")
    message.attached.close()
    one.link.close()


async def test_a_slow_peer_stops_the_sender_and_costs_nothing_when_it_goes() -> None:
    held = descriptors()
    one, other = ends()
    # The peer is alive and reads nothing, as one that hangs.
    other.link._loop.remove_reader(other.link._end)
    for number in range(200):
        one.link.post(Message(number, "Kind", b"z" * INLINE_BYTES, create_sealed_memory("table", b"rows")))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.link.wait_for_room(), 0.05)
    other.link.close()
    await asyncio.wait_for(one.link.wait_for_room(), 5)
    one.link.post(Message(1, "Kind", b"", create_sealed_memory("table", b"rows")))
    assert (one.lost, other.lost) == (1, 1)
    # What had been queued with its memory files is closed too.
    assert descriptors() <= held, "earlier tests may close theirs meanwhile, and a leak only adds"


@pytest.mark.parametrize(
    # No fields, too few, a number that is none, a memory file that is not attached, a kind that is no ASCII.
    "nonsense",
    [b"x", b"1 Kind", b"1 Kind - i", b"a Kind - i {}", b"1 Kind - m ", "1 Künd - i {}".encode()],
)
async def test_nonsense_hangs_up(nonsense: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end = End(ours)
    theirs.send(nonsense)
    await hung_up(end)
    assert end.got.empty()
    theirs.close()


async def test_what_the_peer_would_hang_up_on_is_refused_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    # A kilobyte in place of the real limit.
    monkeypatch.setattr(channel, "MAX_BODY_BYTES", 1_000)
    held = descriptors()
    one, other = ends()
    with pytest.raises(PayloadTooLarge):
        one.link.post(Message(1, "Kind", b"x" * 1_001, create_sealed_memory("table", b"rows")))
    with pytest.raises(InvalidField, match="tenant"):
        one.link.post(Message(1, "Kind", tenant="a b"))
    one.link.post(Message(2, "Kind", b"x" * 1_000))
    assert (await other.got.get()).number == 2
    one.link.close()
    other.link.close()
    assert descriptors() <= held, "earlier tests may close theirs meanwhile, and a leak only adds"


async def test_a_memory_file_over_the_limit_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ends()
    # Over the inline size: the body travels as a memory file, whose size only the reader can check.
    one.link.post(Message(1, "Kind", b"x" * (INLINE_BYTES + 1)))
    monkeypatch.setattr(channel, "MAX_BODY_BYTES", INLINE_BYTES)
    await hung_up(other)
    assert other.got.empty()
    one.link.close()


def test_requests_are_the_apis_own_and_others_are_refused() -> None:
    request = pb.ExecuteRequest(session_id="s", request_id="r", code="1 + 1", wall_ms=50)
    assert say.parse_request("Execute", request.SerializeToString()) == request
    # The front may call what the API has, not a method of the supervisor's class.
    with pytest.raises(NotFound, match="method"):
        say.parse_request("close", b"")
    with pytest.raises(DecodeError):
        say.parse_request("Execute", b"\xff")


def test_errors_keep_their_type() -> None:
    for error in (Overloaded("full", 1.5), NotFound("session", "x")):
        # Over the wire and back: type, text, details and the wish for patience.
        again = say.to_error(say.to_failure(error))
        assert type(again) is type(error)
        assert (again.message, again.metadata, again.retry_after_s) == (
            error.message,
            error.metadata,
            error.retry_after_s,
        )
