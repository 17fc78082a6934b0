"""A private nats-server process for tests and the local stack; it never outlives this process."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from http import HTTPStatus
from pathlib import Path
from types import TracebackType

from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed, MissingExtra
from fathom.core.retry import RetryPolicy, always, retry
from fathom.transport.lifetime import ending_with_parent
from fathom.transport.sockets import PortInUse

BINARY = "nats-server"
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
# The server writes its port to a file when it listens; it starts in some tens of milliseconds.
POLL_S = 0.01
# The server is asked so often how it is; so many times in a row it must be unwell, since a start takes a moment.
CHECK_S, UNWELL_CHECKS = 1.0, 3
# Go collects in time to stay below it. What is live is some ten MiB for each stream that is written: the block that it
# fills, of 4 or 8 MiB, and those that were written or read in the last ten seconds.
MEMORY_LIMIT = "160MiB"
RESTART = RetryPolicy(attempts=5, first_delay_s=0.2)


class NatsServer:
    """A nats-server with JetStream under ``store_dir``: ``async with NatsServer(folder) as server``.

    ``port`` -1 picks any free port, readable from ``url`` and ``port``. Raises ``MissingExtra`` without the binary,
    ``PortInUse``, and ``DependencyFailed("nats-server")`` with the last line of its log when it does not start. Leaving
    the block stops it and keeps the folder.
    """

    def __init__(self, store_dir: Path, port: int = -1, host: str = "127.0.0.1") -> None:
        if port != -1 and not 1 <= port <= 65535:
            raise ConfigError(f"port: {port} is no port", metadata={"field": "port"})
        self.host, self.port = host, port
        self._store_dir = store_dir
        self._process: asyncio.subprocess.Process | None = None
        self._monitor_port = 0

    @property
    def url(self) -> str:
        """URL for clients, e.g. ``nats://127.0.0.1:4222``."""
        return f"nats://{self.host}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """URL of what the server says of itself."""
        return f"http://{self.host}:{self._monitor_port}"

    async def __aenter__(self) -> NatsServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server, on the same port again after ``stop`` or ``kill``; return when it accepts clients."""
        binary = find_binary()
        if self.port != -1:
            check_free(self.host, self.port)
        with tempfile.TemporaryDirectory(prefix="fathom-nats-") as scratch:
            log, config, complaints = Path(scratch) / "log", Path(scratch) / "config", Path(scratch) / "stderr"
            config.write_text(self._configure(), encoding="utf-8")
            with complaints.open("wb") as stderr:
                self._process = await asyncio.create_subprocess_exec(
                    *ending_with_parent(
                        [binary, "-c", str(config), "-a", self.host, "-p", str(self.port), "-m", "-1",
                         "--ports_file_dir", scratch, "-l", str(log)]
                    ),
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=stderr,
                    env={"GOMEMLIMIT": MEMORY_LIMIT, **os.environ},
                )  # fmt: skip
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    self.port, self._monitor_port = await self._announced_ports(Path(scratch))
            except TimeoutError:
                await self.kill()
                raise DependencyFailed(BINARY, f"did not start within {START_TIMEOUT_S:g} s") from None
            except ChildProcessError:
                raise self._refusal(log, complaints) from None
            # Cancelled while it starts: nobody would stop the process otherwise.
            except BaseException:
                await self.kill()
                raise

    def _configure(self) -> str:
        """Return the server's settings for its streams."""
        existing = next(folder for folder in (self._store_dir, *self._store_dir.absolute().parents) if folder.exists())
        # By itself it allows its streams three quarters of what is free at its start: nothing where it starts on a full
        # disk, for as long as it runs.
        size = shutil.disk_usage(existing).total
        # Quotation marks and backslashes are escaped as JSON does it, but no letters: the server reads no ``\\u6570``.
        folder = json.dumps(str(self._store_dir), ensure_ascii=False)
        return f"jetstream {{ store_dir: {folder}, max_file_store: {size} }}\n"

    async def _announced_ports(self, scratch: Path) -> tuple[int, int]:
        assert self._process is not None
        ports = scratch / f"{BINARY}_{self._process.pid}.ports"
        while True:
            if self._process.returncode is not None:
                raise ChildProcessError
            if (found := read_ports(ports)) is not None:
                return found
            await asyncio.sleep(POLL_S)

    def _refusal(self, log: Path, complaints: Path) -> PortInUse | DependencyFailed:
        # What is wrong with its settings it says before it has a log.
        said = [file.read_text(errors="replace").strip() for file in (log, complaints) if file.exists()]
        words = next(filter(None, said), "")
        if "address already in use" in words:
            return PortInUse(BINARY, self.host, self.port)
        return DependencyFailed(BINARY, f"ended at once: {words.splitlines()[-1] if words else 'without a word'}")

    @property
    def pid(self) -> int:
        """Process id; raises ``DependencyFailed("nats-server")`` when it is not running."""
        if self._process is None:
            raise DependencyFailed(BINARY, "is not running")
        return self._process.pid

    async def keep_up(self) -> None:
        """Restart the server, on the same port and folder, when it ends by itself or cannot write; run until cancelled.

        Raises the error of the last of five attempts in a row.
        """
        while (process := self._process) is not None:
            ended = asyncio.ensure_future(process.wait())
            try:
                await self._until_unwell(ended)
            finally:
                ended.cancel()
            if process.returncode is None:
                await end_process(process, signal.SIGTERM)
            await retry(self._restart, RESTART, is_retryable=always)

    async def _until_unwell(self, ended: asyncio.Future[int]) -> None:
        """Wait until the process ends, or says several times in a row that a stream cannot be written.

        After one failed write, as on a full disk, a stream takes nothing more until the server is started again.
        """
        unwell = 0
        while unwell < UNWELL_CHECKS and not ended.done():
            await asyncio.wait([ended], timeout=CHECK_S)
            unwell = unwell + 1 if await asyncio.to_thread(is_unwell, self.host, self._monitor_port) else 0

    async def _restart(self) -> None:
        if self._process is not None:  # otherwise it was stopped, not lost
            await self.start()

    async def stop(self) -> None:
        """Stop the server gracefully, by force after 5 seconds; no error when it is not running."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill the server at once, as a crash would."""
        await self._end(signal.SIGKILL)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            await end_process(process, number)


async def end_process(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """End a process by a signal, by force after 5 seconds."""
    process.send_signal(number)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def find_binary() -> str:
    """Return the path of nats-server: ``FATHOM_NATS_BIN``, then beside this Python, then on PATH.

    Raises ``ConfigError`` when ``FATHOM_NATS_BIN`` is not executable, ``MissingExtra`` when no binary is found.
    """
    named = os.environ.get("FATHOM_NATS_BIN")
    if named:
        if not os.access(named, os.X_OK):
            raise ConfigError(f"FATHOM_NATS_BIN={named!r} is no program", metadata={"field": "FATHOM_NATS_BIN"})
        return named
    beside = Path(sys.executable).parent / BINARY
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which(BINARY)
    if found is None:
        raise MissingExtra(BINARY, "nats-server")
    return found


def check_free(host: str, port: int) -> None:
    """Raise ``PortInUse`` when the port is already taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortInUse(BINARY, host, port) from error


def read_ports(file: Path) -> tuple[int, int] | None:
    """Return the ports of clients and of the monitor as the server announces them, or None while it has not."""
    try:
        announced = json.loads(file.read_text())
        return parse_port(announced["nats"][0]), parse_port(announced["monitoring"][0])
    # Not there yet, or half written: the server does not write it in one piece.
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def parse_port(url: str) -> int:
    return int(url.rpartition(":")[2])


def is_unwell(host: str, port: int) -> bool:
    """Return whether the server at this monitor's port says that a stream cannot be written.

    One that does not answer says nothing: it may be busy, and its end is noticed anyhow.
    """
    connection = http.client.HTTPConnection(host, port, timeout=CHECK_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == HTTPStatus.SERVICE_UNAVAILABLE
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
