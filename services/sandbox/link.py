"""Ordered messages over the unix socket between service front and supervisor; used by both processes.

A message is one datagram ``NUMBER KIND FORM BODY``. The form says where the body is: ``i`` in the datagram itself,
``m`` in a memory file that is sent along. One more memory file may be sent as attachment. Nothing is unpickled.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from services.sandbox.memory import Memory, sealed

INLINE_BYTES = 64 * 1024
HEAD_BYTES = 128
LARGE_BYTES = 512 * 1024 * 1024
WAITING = 64


@dataclass(frozen=True)
class Message:
    """One message.

    ``number`` identifies the call, 0 none; ``body`` is JSON of the kind's type; the reader closes ``attached``.
    """

    number: int
    kind: str
    body: bytes = b"null"
    attached: Memory | None = None


class Link:
    """One end of the socket.

    ``take`` is called with every message, ``lost`` once, when the peer is gone or breaks the protocol.
    """

    def __init__(self, end: socket.socket, take: Callable[[Message], None], lost: Callable[[], None]) -> None:
        end.setblocking(False)
        self._end, self._take, self._lost = end, take, lost
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bytes, tuple[Memory, ...]]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._open = True
        self._loop.add_reader(end, self._read)

    def post(self, message: Message) -> None:
        """Send a message in order and take ownership of its attachment; drop both if the peer is gone."""
        inline = len(message.body) <= INLINE_BYTES
        try:
            parts = () if inline else (sealed("message", message.body),)
        except OSError:
            if message.attached is not None:
                message.attached.close()
            raise
        parts = parts if message.attached is None else (*parts, message.attached)
        head = f"{message.number} {message.kind} {'i' if inline else 'm'} ".encode()
        self._waiting.append((head + message.body if inline else head, parts))
        if len(self._waiting) == 1:
            self._write()
        elif len(self._waiting) >= WAITING:
            self._room.clear()

    async def drained(self) -> None:
        """Wait until the queue is empty if it has reached ``WAITING`` messages, else return at once."""
        await self._room.wait()

    def _write(self) -> None:
        while self._waiting:
            data, parts = self._waiting[0]
            if self._open:
                try:
                    socket.send_fds(self._end, [data], [part.descriptor for part in parts])
                except BlockingIOError:
                    self._loop.add_writer(self._end, self._write)
                    return
                except OSError:
                    self.close()
                    return
            self._waiting.popleft()
            for part in parts:
                part.close()
        if self._open:
            self._loop.remove_writer(self._end)
        self._room.set()

    def _read(self) -> None:
        """Read one message."""
        try:
            # One message per call: a busy peer must not keep the loop from its other work.
            flags = socket.MSG_CMSG_CLOEXEC
            data, descriptors, _, _ = socket.recv_fds(self._end, INLINE_BYTES + HEAD_BYTES, 2, flags)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            message = parsed(data, descriptors) if data else None
        except (ValueError, OSError):
            message = None
        if message is None:
            self.close()
        else:
            self._take(message)

    def close(self) -> None:
        """Close this end and call ``lost``; do nothing the second time."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._end)
        self._loop.remove_writer(self._end)
        self._end.close()
        self._write()
        self._lost()


def parsed(data: bytes, descriptors: list[int]) -> Message:
    """Return the message of a datagram; raise ``ValueError`` for any other, with all descriptors closed."""
    left = list(descriptors)
    try:
        head, kind, form, body = data.split(b" ", 3)
        if form == b"m":
            large = Memory.of(left.pop(0), LARGE_BYTES)
            try:
                body = large.read()
            finally:
                large.close()
        attached = Memory.of(left.pop(0), LARGE_BYTES) if left else None
        return Message(int(head), kind.decode("ascii"), body, attached)
    except Exception as error:
        raise ValueError("no message") from error
    finally:
        for descriptor in left:
            with suppress(OSError):
                os.close(descriptor)
