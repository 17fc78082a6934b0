"""Handle to one supervisor process, used in the service front: start, requests, end."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage
from pydantic import ValidationError

import fathom
from fathom.core.call import Lane
from fathom.core.errors import DependencyFailed
from fathom.services.sandbox.ipc import messages as say
from fathom.services.sandbox.ipc import programs
from fathom.services.sandbox.ipc.channel import DatagramChannel, Message
from fathom.services.sandbox.ipc.memfd import SealedMemory
from fathom.services.sandbox.ipc.messages import RecordMetric

# The supervisor starts with an empty path (``-I``), so that nothing of the service's environment leads it.
IMPORT_FOLDER = str(Path(fathom.__file__).resolve().parents[1])
# Sessions show up to megabytes each. Without the two bounds glibc keeps what was freed of them in a heap for each
# thread, which grew by 5 MiB per thousand sessions; a fixed threshold gives large blocks back to the system at once.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **ALLOCATOR}
# Longer than the end of all sessions takes, since a kill leaves their scratch folders behind.
END_S = 10.0
# Enough of stderr for a traceback in the log.
LAST_WORDS = 4_096
R = TypeVar("R", bound=ProtobufMessage)


class SupervisorLost(DependencyFailed):
    """Error of a request whose supervisor ended, or broke the protocol, before it answered."""

    def __init__(self) -> None:
        super().__init__("sandbox supervisor", "ended, and every session with it")


class SupervisorProcess:
    """Handle to one supervisor process.

    When its socket is closed, ``lost`` is called first; then ``ended`` is set and pending requests fail.
    """

    def __init__(self, log: say.Log, note: RecordMetric, lost: Callable[[], None]) -> None:
        self.ended = asyncio.Event()
        self._log, self._note, self._lost = log, note, lost
        # 0 stands for messages that belong to no call: metrics and log lines.
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Queue[Message | None]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._channel: DatagramChannel | None = None
        self._reading: asyncio.Task[None] | None = None
        self._words = b""

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        assert self._process is not None, "the supervisor was not started"
        return self._process.pid

    async def start(self) -> None:
        """Start the process; it answers ``say.START`` once its imports are done."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", programs.SUPERVISOR, str(theirs.fileno()), str(os.getpid()), IMPORT_FOLDER,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                # A session of its own: Ctrl-C at a terminal reaches the front alone, which ends the supervisor in
                # order.
                env=ENVIRON, cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        except BaseException:  # cancellation included: the socket is ours
            ours.close()
            raise
        finally:
            # The child has its copy. Ours would hide its end: the socket stays open while anybody holds the other side.
            theirs.close()
        self._channel = DatagramChannel(ours, self._take, self._handle_loss)
        self._reading = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Read stderr, so that the process never blocks on it, and keep the last ``LAST_WORDS`` bytes."""
        assert self._process is not None
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(LAST_WORDS):
            self._words = (self._words + data)[-LAST_WORDS:]

    def _take(self, message: Message) -> None:
        if message.attached is not None:
            # No reply has an attachment; an unread one would hold its descriptor for ever.
            message.attached.close()
            self.kill()
        elif message.number in self._calls:
            self._calls[message.number].put_nowait(message)
        elif not message.number:  # else it is a late answer to a cancelled request
            self._record(message)

    def _record(self, message: Message) -> None:
        try:
            record = self._read(message)
        except SupervisorLost:
            return  # it has been killed, and its end is handled like any other
        if isinstance(record, say.Measurement):
            self._note(record.name, record.label, record.value)
        elif isinstance(record, say.LogLine):
            write = {"info": self._log.info, "warning": self._log.warning}.get(record.level, self._log.error)
            write(record.text, **{f"sandbox_{name}": value for name, value in record.fields.items()})

    def _read(self, message: Message) -> Any:
        """Return the record in a message; kill the supervisor and raise ``SupervisorLost`` for anything else."""
        try:
            return say.RECORDS[message.kind].validate_json(message.body, strict=True)
        except (KeyError, ValidationError) as error:
            self.kill()
            raise SupervisorLost from error

    def _handle_loss(self) -> None:
        # First, so that whoever notices the end finds the sessions already counted as lost.
        self._lost()
        self.ended.set()
        for queue in self._calls.values():
            queue.put_nowait(None)

    async def call(
        self,
        method: str,
        body: bytes,
        kind: type[R],
        *,
        tenant: str = "",
        lane: Lane = Lane.INTERACTIVE,
        attached: SealedMemory | None = None,
    ) -> R:
        """Return the only response of a request, see ``stream``."""
        async with aclosing(self.stream(method, body, kind, tenant=tenant, lane=lane, attached=attached)) as responses:
            found = await anext(responses, None)
            if found is None or await anext(responses, None) is not None:
                self.kill()
                raise SupervisorLost
        return found

    async def stream(
        self,
        method: str,
        body: bytes,
        kind: type[R],
        *,
        tenant: str = "",
        lane: Lane = Lane.INTERACTIVE,
        attached: SealedMemory | None = None,
    ) -> AsyncGenerator[R, None]:
        """Yield the responses to a request, which are messages of type ``kind``; take ownership of ``attached``.

        The request is cancelled if the reader stops before the end. Raise the engine's error, or ``SupervisorLost``.
        """
        number, queue = next(self._numbers), asyncio.Queue[Message | None]()
        if self._channel is None or self.ended.is_set():
            if attached is not None:
                attached.close()
            raise SupervisorLost
        self._calls[number] = queue
        is_over = False
        try:
            self._channel.post(Message(number, method, body, attached, tenant, lane))
            while (message := await queue.get()) is not None:
                is_over = message.kind != say.RESPONSE
                if message.kind == say.END:
                    return
                if is_over:
                    raise say.to_error(self._read_failure(message))
                yield self._parse(message.body, kind)
            raise SupervisorLost
        finally:
            del self._calls[number]
            if not is_over:
                self._channel.post(Message(number, say.CANCEL))

    def _read_failure(self, message: Message) -> say.Failure:
        record = self._read(message)
        if not isinstance(record, say.Failure):
            self.kill()
            raise SupervisorLost
        return record

    def _parse(self, body: bytes, kind: type[R]) -> R:
        """Return a response; kill the supervisor and raise ``SupervisorLost`` for bytes that are none."""
        try:
            response = kind.FromString(body)
        except DecodeError as error:
            self.kill()
            raise SupervisorLost from error
        # What is passed on to callers has the fields of the contract and no others.
        response.DiscardUnknownFields()
        return response

    def kill(self) -> None:
        """Kill the process at once; its sessions end with it."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> str:
        """Close the link, upon which the process ends, and return how it ended, for the log.

        Kill it if that takes longer than ``END_S`` seconds.
        """
        if self._channel is not None:
            self._channel.close()
        if self._process is None:
            return "was not started"
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=1.0)
            self._reading.cancel()
        return f"status {self._process.returncode} {self._words.decode(errors='replace').strip()[-400:]}".strip()
