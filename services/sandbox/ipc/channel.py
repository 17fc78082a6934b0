"""Ordered messages over the unix socket between service front and supervisor; used by both processes.

A message is one datagram ``NUMBER KIND TENANT FORM BODY``. The form says where the body is: ``i`` in the datagram
itself, ``m`` in a memory file that is sent along. One more memory file may be sent as attachment. Nothing is unpickled.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from fathom.core.call import Lane
from fathom.core.errors import PayloadTooLarge
from fathom.core.ids import checked_id
from fathom.services.sandbox.ipc.memfd import SealedMemory, create_sealed_memory

# Below the default socket buffer (208 KiB), so that a datagram always fits; larger bodies go by memory file.
INLINE_BYTES = 64 * 1024
# Room for number, kind, tenant (an id of at most 128 bytes), lane and form before the body.
HEAD_BYTES = 256
# Twice gRPC's limit for a message, which bounds requests: whatever the front accepts fits, and what a supervisor makes
# the front read at once is bounded.
MAX_BODY_BYTES = 64 * 1024 * 1024
# Twice the default ``frames_bytes``: no legal table is larger.
MAX_ATTACHED_BYTES = 512 * 1024 * 1024
# Back pressure: beyond it the supervisor stops reading events of cells until the front has caught up.
MAX_QUEUED = 64


@dataclass(frozen=True)
class Message:
    """One message.

    ``number`` identifies the call, 0 none; ``tenant`` and ``lane`` are the caller's, "" outside a call; the reader
    closes ``attached``. What a body holds is in ``ipc.messages``.
    """

    number: int
    kind: str
    body: bytes = b""
    attached: SealedMemory | None = None
    tenant: str = ""
    lane: Lane = Lane.INTERACTIVE


class DatagramChannel:
    """One end of the socket.

    ``take`` is called with every message, ``lost`` once, when the peer is gone or breaks the protocol.
    """

    def __init__(self, end: socket.socket, take: Callable[[Message], None], lost: Callable[[], None]) -> None:
        end.setblocking(False)
        self._end, self._take, self._lost = end, take, lost
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[bytes, tuple[SealedMemory, ...]]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._open = True
        self._loop.add_reader(end, self._read)

    def post(self, message: Message) -> None:
        """Send a message in order and take ownership of its attachment; drop both if the peer is gone.

        Raise ``PayloadTooLarge`` for a body over ``MAX_BODY_BYTES`` and ``InvalidField("tenant")``.
        """
        inline = len(message.body) <= INLINE_BYTES
        try:
            head = format_head(message, inline)
            parts = () if inline else (create_sealed_memory("message", message.body),)
        except BaseException:  # whatever the cause, nobody else would close the attachment
            if message.attached is not None:
                message.attached.close()
            raise
        parts = parts if message.attached is None else (*parts, message.attached)
        self._waiting.append((head + message.body if inline else head, parts))
        if len(self._waiting) == 1:
            self._write()
        elif len(self._waiting) >= MAX_QUEUED:
            self._room.clear()

    async def wait_for_room(self) -> None:
        """Wait until the queue is empty if it has reached ``MAX_QUEUED`` messages, else return at once."""
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
            # The kernel has its own reference by now, or the peer is gone: either way ours are to be closed.
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
            # Without it the fork server, which is started by exec, would inherit the sessions' tables.
            flags = socket.MSG_CMSG_CLOEXEC
            # Two descriptors at most: the body's and the attachment's. The kernel closes what does not fit.
            data, descriptors, _, _ = socket.recv_fds(self._end, INLINE_BYTES + HEAD_BYTES, 2, flags)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            message = parse_datagram(data, descriptors) if data else None
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
        # With the end closed this sends nothing: it closes the waiting memory files and wakes whoever waits for room.
        self._end.close()
        self._write()
        self._lost()


def format_head(message: Message, inline: bool) -> bytes:
    """Return the text before the body; raise ``PayloadTooLarge`` or ``InvalidField("tenant")``."""
    # Checked by the sender, because the peer hangs up on a message that breaks the protocol, and every session with it.
    if len(message.body) > MAX_BODY_BYTES:
        raise PayloadTooLarge(len(message.body), MAX_BODY_BYTES)
    tenant = checked_id("tenant", message.tenant) if message.tenant else "-"
    return f"{message.number} {message.kind} {tenant} {message.lane} {'i' if inline else 'm'} ".encode("ascii")


def parse_datagram(data: bytes, descriptors: list[int]) -> Message:
    """Return the message of a datagram; raise ``ValueError`` for any other, with all descriptors closed."""
    left = list(descriptors)
    try:
        number, kind, tenant, lane, form, body = data.split(b" ", 5)
        if form == b"m":
            large = SealedMemory.of(left.pop(0), MAX_BODY_BYTES)
            try:
                body = large.read()
            finally:
                large.close()
        attached = SealedMemory.of(left.pop(0), MAX_ATTACHED_BYTES) if left else None
        caller = "" if tenant == b"-" else tenant.decode("ascii")
        return Message(int(number), kind.decode("ascii"), body, attached, caller, Lane(lane.decode("ascii")))
    except Exception as error:  # whatever is wrong with a peer's bytes, they are no message
        raise ValueError("no message") from error
    finally:
        for descriptor in left:
            with suppress(OSError):
                os.close(descriptor)
