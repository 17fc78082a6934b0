"""Supervisor's handle to one session's init process (its first, trusted one): reports, signals, end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from typing import Any

from fathom.core.errors import DependencyFailed
from fathom.services.sandbox.ipc import status

# An init process that has reported no status was killed itself, with all below it.
NO_STATUS = -signal.SIGKILL
# The socket holds hundreds of orders: it is full only when the init process has waited for a processor for seconds.
RESEND_S = 0.02


class WallFailed(DependencyFailed):
    """Error of a jail's wall that could not be built; the session never ran anything.

    ``stage`` names the wall; ``errno`` is 0 unless the kernel refused something.
    """

    def __init__(self, stage: str, error: str, errno: int = 0) -> None:
        super().__init__("sandbox jail", f"{stage}: {error}")
        self.stage, self.error, self.errno = stage, error, errno


class ForkServerLost(DependencyFailed):
    """Error of a fork server that ended before it read the request; another one can be asked."""

    def __init__(self) -> None:
        super().__init__("sandbox fork server", "ended before it started the session")


class InitHandle:
    """Handle to one session's init process.

    ``ours`` and ``theirs`` are the two ends of the status channel; ``ended`` is set when the init process is gone.
    """

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
        self._wanted = signal.SIGCONT
        self._resending: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Read the status channel; to be called once the other end has been handed over."""
        self.theirs.close()
        self._loop.add_reader(self.ours, self._read)

    async def wait_until_started(self) -> None:
        """Return when the scratch folder is there; raise ``WallFailed`` or ``ForkServerLost``."""
        await asyncio.shield(self._started)

    def _read(self) -> None:
        """Read one message of the status channel."""
        try:
            message, descriptors = status.receive_status(self.ours)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            message, descriptors = None, []
        if message is None:
            # After the last message only the process handle is left to wait for.
            self._loop.remove_reader(self.ours)
            self._fail("first process", "ended before it was ready")
            if self._handle < 0:
                self.ended.set()
            return
        self._take(message, descriptors)

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        # The fork server speaks first, with the handle; all other reports are the init process's own.
        if "init" in message:
            self.init_pid, self._handle = int(message["init"]), descriptors[0]
            self._loop.add_reader(self._handle, self._handle_exit)
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
            never_started = self._handle < 0 and not self.trouble
            self._started.set_exception(ForkServerLost() if never_started else WallFailed(stage, error, errno))
            # Marks the exception as retrieved: asyncio would log it when nobody waits for the start.
            self._started.exception()

    def _handle_exit(self) -> None:
        """Handle the end of the init process, and with it of everything in its process namespace."""
        self._loop.remove_reader(self._handle)
        with suppress(BlockingIOError, OSError, ValueError):
            # Its last report may still be in the socket when the handle becomes readable.
            while (message := status.receive_status(self.ours))[0] is not None:
                self._take(message[0], message[1])
        self._fail("first process", "ended before it was ready")
        if self.code is None:
            self.code = NO_STATUS
        self.ended.set()

    def interrupt(self) -> None:
        """Send SIGINT to the worker only; do nothing when it has ended."""
        with suppress(OSError):
            self.ours.send(status.INTERRUPT)

    def signal_all(self, number: signal.Signals) -> None:
        """Ask the init process to send SIGSTOP or SIGCONT, the last one asked for, to all others of the session."""
        self._wanted = number
        if self._resending is None:
            self._send_wanted_signal()

    def _send_wanted_signal(self) -> None:
        self._resending = None
        try:
            self.ours.send(status.SIGNALS[self._wanted])
        except BlockingIOError:  # it has had no processor for long; a SIGCONT that is lost would be missed for good
            self._resending = self._loop.call_later(RESEND_S, self._send_wanted_signal)
        except OSError:  # it has ended, and all others with it
            return

    def end(self) -> None:
        """Ask the init process to kill everything and itself: the only way without a process namespace."""
        with suppress(OSError):
            self.ours.send(status.END)

    def kill(self) -> None:
        """Kill the init process."""
        if self._handle >= 0 and not self.ended.is_set():
            # By handle, because its number may be another process's by now.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """Close every descriptor; to be called after the end."""
        if self._resending is not None:
            self._resending.cancel()
        self._loop.remove_reader(self.ours)
        self.ours.close()
        self.theirs.close()
        for descriptor in (self._handle, self.scratch):
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        self._handle = self.scratch = -1
        self._fail("first process", "was given up")
