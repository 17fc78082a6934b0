"""Messages between front and supervisor: in order, whole, of any size; nonsense hangs up and leaks nothing."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from fathom.errors import NotFound, Overloaded
from services.sandbox import messages as say
from services.sandbox.link import INLINE_BYTES, Link, Message
from services.sandbox.memory import sealed
from tests.support.waiting import eventually


class End:
    """One end that keeps what it gets."""

    def __init__(self, end: socket.socket) -> None:
        self.got: asyncio.Queue[Message] = asyncio.Queue()
        self.lost = 0
        self.link = Link(end, self.got.put_nowait, self._lose)

    def _lose(self) -> None:
        self.lost += 1


def ends() -> tuple[End, End]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return End(one), End(other)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_messages_keep_their_order_and_their_bytes() -> None:
    held = descriptors()
    one, other = ends()
    bodies = [b"x" * size for size in (0, 1, INLINE_BYTES, INLINE_BYTES + 1, 3_000_000)] * 200
    for number, body in enumerate(bodies):
        one.link.post(Message(number, "Kind", body))
    for number, body in enumerate(bodies):
        assert await other.got.get() == Message(number, "Kind", body)
    await one.link.drained()
    one.link.close()
    assert (one.lost, other.lost) == (1, 0)
    await hung_up(other)
    assert descriptors() == held


async def hung_up(end: End) -> None:
    await eventually(lambda: end.lost)


async def test_an_attachment_is_the_memory_itself_and_nobody_can_change_it() -> None:
    one, other = ends()
    one.link.post(Message(1, "Kind", b"y" * 100_000, sealed("table", b"rows")))
    message = await other.got.get()
    assert message.attached is not None
    assert (message.body, message.attached.read()) == (b"y" * 100_000, b"rows")
    with pytest.raises(PermissionError):
        os.write(message.attached.descriptor, b"more")
    message.attached.close()
    one.link.close()


async def test_a_slow_peer_stops_the_sender_and_costs_nothing_when_it_goes() -> None:
    held = descriptors()
    one, other = ends()
    other.link._loop.remove_reader(other.link._end)
    for number in range(200):
        one.link.post(Message(number, "Kind", b"z" * INLINE_BYTES, sealed("table", b"rows")))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.link.drained(), 0.05)
    other.link.close()
    await asyncio.wait_for(one.link.drained(), 5)
    one.link.post(Message(1, "Kind", b"", sealed("table", b"rows")))
    assert (one.lost, other.lost) == (1, 1)
    assert descriptors() == held


@pytest.mark.parametrize("nonsense", [b"x", b"1 Kind", b"a Kind i {}", b"1 Kind m ", "1 Künd i {}".encode()])
async def test_nonsense_hangs_up(nonsense: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end = End(ours)
    theirs.send(nonsense)
    await hung_up(end)
    assert end.got.empty()
    theirs.close()


def test_records_are_read_strictly_and_errors_keep_their_type() -> None:
    request = say.Execute("s", "r", "1 + 1", 50)
    body = say.REQUESTS["Execute"].dump_json(request)
    assert say.REQUESTS["Execute"].validate_json(body, strict=True) == request
    with pytest.raises(ValueError, match="wall_ms"):
        say.REQUESTS["Execute"].validate_json(body.replace(b"50", b'"50"'), strict=True)
    for error in (Overloaded("full", 1.5), NotFound("session", "x")):
        again = say.raised(say.failure(error))
        assert type(again) is type(error)
        assert (again.message, again.metadata, again.retry_after_s) == (
            error.message,
            error.metadata,
            error.retry_after_s,
        )
