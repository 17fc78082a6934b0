"""The supervisor's hold on one session's trusted side: what its first process tells, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from typing import Any

from fathom.errors import DependencyFailed
from services.sandbox.jail import status

NO_STATUS = -signal.SIGKILL


class WallFailed(DependencyFailed):
    """A wall of the jail could not be built; ``stage`` names it, ``errno`` is 0 where the kernel refused nothing.

    The session never ran anything.
    """

    def __init__(self, stage: str, error: str, errno: int = 0) -> None:
        super().__init__("sandbox jail", f"{stage}: {error}")
        self.stage, self.error, self.errno = stage, error, errno


class ForkLost(DependencyFailed):
    """The fork server was gone before it read the request; another one can be asked."""

    def __init__(self) -> None:
        super().__init__("sandbox fork server", "ended before it started the session")


class Leash:
    """``ours`` and ``theirs`` are the two ends of the status channel; ``exited`` is set when all has ended."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)
        self.init_pid = 0
        self.scratch = -1
        self.code: int | None = None
        self.trouble = ""
        self.ended = asyncio.Event()
        self._handle = -1
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()

    def listen(self) -> None:
        """After the other end has been handed over."""
        self.theirs.close()
        self._loop.add_reader(self.ours, self._read)

    async def started(self) -> None:
        """Returns when the scratch folder is there; raises ``WallFailed``."""
        await asyncio.shield(self._started)

    def _read(self) -> None:
        """One message. After the last one nothing is left to wait for but the process handle."""
        try:
            message, descriptors = status.hear(self.ours)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            message, descriptors = None, []
        if message is None:
            self._loop.remove_reader(self.ours)
            self._fail("first process", "ended before it was ready")
            if self._handle < 0:
                self.ended.set()
            return
        self._take(message, descriptors)

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if "init" in message:
            self.init_pid, self._handle = int(message["init"]), descriptors[0]
            self._loop.add_reader(self._handle, self._gone)
        elif "scratch" in message:
            self.scratch = descriptors[0]
            if not self._started.done():
                self._started.set_result(None)
        elif "exit" in message:
            self.code = int(message["exit"])
        elif "failed" in message:
            self.trouble = f"{message['failed']}: {message['error']}"
            self._fail(str(message["failed"]), str(message["error"]), int(message["errno"]))

    def _fail(self, stage: str, error: str, errno: int = 0) -> None:
        if not self._started.done():
            untold = self._handle < 0 and not self.trouble
            self._started.set_exception(ForkLost() if untold else WallFailed(stage, error, errno))
            # Whoever waits has it; nobody has to.
            self._started.exception()

    def _gone(self) -> None:
        """The first process has ended, and with it everything in its process namespace."""
        self._loop.remove_reader(self._handle)
        with suppress(BlockingIOError, OSError, ValueError):
            while (message := status.hear(self.ours))[0] is not None:
                self._take(message[0], message[1])
        self._fail("first process", "ended before it was ready")
        if self.code is None:
            self.code = NO_STATUS
        self.ended.set()

    def interrupt(self) -> None:
        """SIGINT to the worker only; no error when it has ended."""
        with suppress(OSError):
            self.ours.send(status.INTERRUPT)

    def end(self) -> None:
        """Asks the first process to kill everything and itself: the only way without a process namespace."""
        with suppress(OSError):
            self.ours.send(status.END)

    def kill(self) -> None:
        """Kills the first process."""
        if self._handle >= 0 and not self.ended.is_set():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """Lets go of every descriptor; to be called after the end."""
        self._loop.remove_reader(self.ours)
        self.ours.close()
        self.theirs.close()
        for descriptor in (self._handle, self.scratch):
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        self._handle = self.scratch = -1
        self._fail("first process", "was given up")
