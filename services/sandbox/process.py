"""One worker process from outside: its socket, its pipes, its limits, its memory, its end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fathom.errors import DependencyFailed
from fathom.rpc.lifetime import ending_with_parent
from services.sandbox.config import Config
from services.sandbox.output import Budget, Decoder
from services.sandbox.wire import HEADER, BadFrame, length, pack, unpack

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("worker.py")
ADDRESS_SPACE = 4 * 1024**3
OPEN_FILES = 256
PAGE = os.sysconf("SC_PAGE_SIZE")
READ_SIZE = 65_536
Sink = Callable[[str, str], None]


def limits(config: Config) -> str:
    """Rlimits that the worker sets before it runs any code, as JSON of resource names and values."""
    return json.dumps(
        {
            "RLIMIT_AS": ADDRESS_SPACE,
            "RLIMIT_CPU": max(1, config.cpu_ms // 1000),
            "RLIMIT_FSIZE": config.scratch_bytes,
            "RLIMIT_NOFILE": OPEN_FILES,
            "RLIMIT_CORE": 0,
        }
    )


class Pipe:
    """One output stream of a worker, read without blocking; what arrives goes to the present sink."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._decoder, self._budget, self._sink = Decoder(), Budget(0), None
        asyncio.get_running_loop().add_reader(self._read_end, self.drain)

    _sink: Sink | None

    def direct(self, budget: Budget, sink: Sink | None) -> None:
        """From now on output counts against ``budget`` and goes to ``sink``."""
        self._decoder, self._budget, self._sink = Decoder(), budget, sink

    def drain(self) -> None:
        """Reads all that is there."""
        while True:
            try:
                data = os.read(self._read_end, READ_SIZE)
            except BlockingIOError:
                return
            if not data:
                asyncio.get_running_loop().remove_reader(self._read_end)
                return
            text = self._decoder.decode(data, self._budget)
            if text and self._sink is not None:
                self._sink(self.name, text)
            if len(data) < READ_SIZE:
                return

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._read_end)
        os.close(self._read_end)


class WorkerProcess:
    """A started worker. ``exited`` is set when it has ended, however that came."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.scratch = Path(tempfile.mkdtemp(prefix="fathom-session-"))
        self.stdout, self.stderr = Pipe("stdout"), Pipe("stderr")
        self.exited = asyncio.Event()
        self.returncode: int | None = None
        self.pid = 0

    async def start(self) -> None:
        """Returns when the worker is ready; raises ``DependencyFailed("sandbox worker")``."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *ending_with_parent(
                    [sys.executable, "-I", str(WORKER), str(theirs.fileno()), str(ROOT), limits(self._config)],
                    signal.SIGKILL,
                ),
                stdin=asyncio.subprocess.DEVNULL, stdout=self.stdout.write_end, stderr=self.stderr.write_end,
                env=self._environ(), cwd=self.scratch, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        for pipe in (self.stdout, self.stderr):
            os.close(pipe.write_end)
        self.pid = process.pid
        self._waiting = asyncio.create_task(self._wait(process))
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        try:
            async with asyncio.timeout(self._config.start_timeout_s):
                await self.receive()
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            await self.end()
            raise DependencyFailed("sandbox worker", f"did not start: {type(error).__name__}") from error

    def _environ(self) -> dict[str, str]:
        """Nothing of ours: a cell can read its environment."""
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
        home = str(self.scratch)
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
            "IPYTHONDIR": f"{home}/.ipython",
            "PLOTLY_RENDERER": "plotly_mimetype",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            **threads,
        }

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        self.returncode = await process.wait()
        self.exited.set()

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(pack(message))
        await self._writer.drain()

    async def receive(self) -> dict[str, Any]:
        """The next frame; raises ``BadFrame`` or ``IncompleteReadError``."""
        size = length(await self._reader.readexactly(HEADER.size))
        return unpack(await self._reader.readexactly(size))

    def signal(self, number: signal.Signals) -> None:
        """To the worker only; no error when it has ended."""
        if not self.exited.is_set():
            os.kill(self.pid, number)

    def memory_bytes(self) -> int:
        """Resident bytes of all processes in the worker's session."""
        total = 0
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                total += resident(entry.name, self.pid)
        return total

    async def end(self) -> None:
        """Kills the worker with its process group and removes its scratch folder."""
        if self.pid and not self.exited.is_set():
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.exited.set()
            await self._waiting
        if self.pid:
            self._writer.close()
        self.stdout.close()
        self.stderr.close()
        await asyncio.to_thread(shutil.rmtree, self.scratch, ignore_errors=True)


def resident(pid: str, session: int) -> int:
    """Resident bytes of a process of this session, else 0."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:  # it has just ended
        return 0
    return int(fields[21]) * PAGE if int(fields[3]) == session else 0
