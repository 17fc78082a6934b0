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

from pydantic import TypeAdapter, ValidationError

import fathom.errors
from fathom.errors import DependencyFailed
from services.sandbox import messages as say
from services.sandbox.link import Link, Message
from services.sandbox.memory import Memory
from services.sandbox.metrics import Noted
from services.sandbox.supervisor import BOOT

PATHS = (Path(__file__).resolve().parents[2], Path(fathom.errors.__file__).resolve().parents[1])
ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
END_S = 10.0
LAST_WORDS = 4_096
T = TypeVar("T")


class SupervisorLost(DependencyFailed):
    """Error of a request whose supervisor ended, or broke the protocol, before it answered."""

    def __init__(self) -> None:
        super().__init__("sandbox supervisor", "ended, and every session with it")


class Incarnation:
    """Handle to one supervisor process.

    When its socket is closed, ``lost`` is called first; then ``ended`` is set and pending requests fail.
    """

    def __init__(self, log: say.Log, note: Noted, lost: Callable[[], None]) -> None:
        self.ended = asyncio.Event()
        self._log, self._note, self._lost = log, note, lost
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Queue[Message | None]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._link: Link | None = None
        self._reading: asyncio.Task[None] | None = None
        self._words = b""

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        assert self._process is not None, "the supervisor was not started"
        return self._process.pid

    async def start(self) -> None:
        """Start the process; it answers ``Start`` once its imports are done."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", BOOT, str(theirs.fileno()), str(os.getpid()), *map(str, PATHS),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                env=ENVIRON, cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._link = Link(ours, self._take, self._gone)
        self._reading = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Read stderr, so that the process never blocks on it, and keep the last ``LAST_WORDS`` bytes."""
        assert self._process is not None
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(LAST_WORDS):
            self._words = (self._words + data)[-LAST_WORDS:]

    def _take(self, message: Message) -> None:
        if message.number in self._calls:
            self._calls[message.number].put_nowait(message)
            return
        if message.attached is not None:
            message.attached.close()
        if message.number:  # an answer that nobody waits for any more
            return
        try:
            self._tell(say.REPLIES[message.kind].validate_json(message.body, strict=True))
        except (KeyError, ValidationError):
            self.kill()

    def _tell(self, told: Any) -> None:
        if isinstance(told, say.Note):
            self._note(told.name, told.label, told.value)
        elif isinstance(told, say.Line):
            say_it = {"info": self._log.info, "warning": self._log.warning}.get(told.level, self._log.error)
            say_it(told.text, **{f"sandbox_{name}": value for name, value in told.fields.items()})

    def _gone(self) -> None:
        self._lost()
        self.ended.set()
        for queue in self._calls.values():
            queue.put_nowait(None)

    async def call(self, request: say.Request, result: TypeAdapter[T], attached: Memory | None = None) -> T:
        """Return the answer to a request; take ownership of ``attached``.

        Raise the engine's error, or ``SupervisorLost``.
        """
        message = await self._answer(request, attached)
        if message.attached is not None:
            message.attached.close()
        return self._read(result, message)

    async def content(self, request: say.Request) -> bytes:
        """Return the attachment of the answer; raise the engine's error, or ``SupervisorLost``."""
        message = await self._answer(request, None)
        if message.attached is None:
            self.kill()
            raise SupervisorLost
        try:
            return await asyncio.to_thread(message.attached.read)
        finally:
            message.attached.close()

    async def _answer(self, request: say.Request, attached: Memory | None) -> Message:
        async with aclosing(self.messages(request, attached)) as messages:
            return await anext(messages)

    async def messages(self, request: say.Request, attached: Memory | None = None) -> AsyncGenerator[Message, None]:
        """Yield the replies up to and with ``Result``, or up to and without ``End``.

        The request is cancelled if the reader stops before. Raise the engine's error, or ``SupervisorLost``.
        """
        number, queue = next(self._numbers), asyncio.Queue[Message | None]()
        if self._link is None or self.ended.is_set():
            if attached is not None:
                attached.close()
            raise SupervisorLost
        self._calls[number] = queue
        kind, finished = type(request).__name__, False
        try:
            self._link.post(Message(number, kind, say.REQUESTS[kind].dump_json(request), attached))
            while not finished:
                message = await queue.get()
                finished = message is None or message.kind in ("Result", "End", "Failure")
                if message is None:
                    raise SupervisorLost
                if message.kind == "Failure":
                    raise say.raised(self.read_reply(message))
                if message.kind != "End":
                    yield message
        finally:
            del self._calls[number]
            if not finished:
                self._link.post(Message(number, "Cancel"))
            while not queue.empty():
                if (unread := queue.get_nowait()) is not None and unread.attached is not None:
                    unread.attached.close()

    def read_reply(self, message: Message) -> Any:
        """Return the record of a message.

        Kill the supervisor and raise ``SupervisorLost`` for an unknown kind or a wrong shape.
        """
        if message.kind not in say.REPLIES:
            self.kill()
            raise SupervisorLost
        return self._read(say.REPLIES[message.kind], message)

    def _read(self, record: TypeAdapter[T], message: Message) -> T:
        try:
            return record.validate_json(message.body, strict=True)
        except ValidationError as error:
            self.kill()
            raise SupervisorLost from error

    def kill(self) -> None:
        """Kill the process at once; its sessions end with it."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> str:
        """Close the link, upon which the process ends, and return how it ended, for the log.

        Kill it if that takes longer than ``END_S`` seconds.
        """
        if self._link is not None:
            self._link.close()
        if self._process is None:
            return "was not started"
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            self.kill()
            await self._process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=1.0)
            self._reading.cancel()
        return f"status {self._process.returncode} {self._words.decode(errors='replace').strip()[-400:]}".strip()
