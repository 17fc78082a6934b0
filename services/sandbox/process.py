"""One worker process from outside: its start, its socket, its pipes, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from fathom.errors import DependencyFailed
from services.sandbox import procfs
from services.sandbox.config import Config
from services.sandbox.files import remove_tree
from services.sandbox.pipe import Pipe
from services.sandbox.wire import HEADER, BadFrame, length, pack, unpack

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("worker.py")
ADDRESS_SPACE = 4 * 1024**3
OPEN_FILES = 256
# RLIMIT_NPROC counts all of the user's threads on the machine, so it can only be a far fence; the watch counts well.
USER_THREADS = 4096
START_CPU_S = 10
LARGE_FRAME = 256 * 1024


class WorkerProcess:
    """A started worker. ``exited`` is set when it and all that it started have ended, however that came."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.scratch = Path(tempfile.mkdtemp(prefix="fathom-session-"))
        self.stdout, self.stderr = Pipe("stdout"), Pipe("stderr")
        self.exited = asyncio.Event()
        self.returncode: int | None = None
        self.pid = 0
        self.cpu_at_start_s = 0.0
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when the worker is ready; raises ``DependencyFailed("sandbox worker")``, and leaves nothing then."""
        try:
            async with asyncio.timeout(self._config.start_timeout_s):
                await self._spawn()
                await self.receive()
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            await self.end()
            raise DependencyFailed("sandbox worker", f"did not start: {type(error).__name__}") from error
        except BaseException:
            await self.end()
            raise
        ready = procfs.process(self.pid)
        self.cpu_at_start_s = ready.cpu_s if ready else 0.0

    async def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._reader, self._writer = await asyncio.open_connection(sock=ours)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", str(WORKER), str(theirs.fileno()), str(ROOT), str(os.getpid()), self._limits(),
                stdin=asyncio.subprocess.DEVNULL, stdout=self.stdout.fileno(), stderr=self.stderr.fileno(),
                env=self._environ(), cwd=self.scratch, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self.pid = process.pid
        self._waiting = asyncio.create_task(self._wait(process))
        for pipe in (self.stdout, self.stderr):
            pipe.close_write_end()

    def _limits(self) -> str:
        """Resource limits by name, which the worker sets for itself before it reads anything else."""
        wanted = {
            "AS": ADDRESS_SPACE,
            "CPU": START_CPU_S + max(1, self._config.cpu_ms // 1000),
            "FSIZE": self._config.scratch_bytes,
            "NOFILE": OPEN_FILES,
            "NPROC": USER_THREADS,
            "CORE": 0,
            "MSGQUEUE": 0,
        }
        return json.dumps(wanted)

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
        """The worker's end, and then that of whatever it has started."""
        self.returncode = await process.wait()
        procfs.kill_group(self.pid)
        await asyncio.to_thread(procfs.sweep, self.pid, f"HOME={self.scratch}".encode())
        self.exited.set()

    async def send(self, message: dict[str, Any]) -> None:
        assert self._writer is not None, "the worker was not started"
        self._writer.write(pack(message))
        await self._writer.drain()

    async def receive(self) -> dict[str, Any]:
        """The next frame; raises ``BadFrame`` or ``IncompleteReadError``."""
        size = length(await self._reader.readexactly(HEADER.size))
        body = await self._reader.readexactly(size)
        return unpack(body) if size < LARGE_FRAME else await asyncio.to_thread(unpack, body)

    def interrupt(self) -> None:
        """SIGINT to the worker only; no error when it has ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Ends the worker with its process group; ``exited`` follows."""
        if self.pid and self.returncode is None:
            procfs.kill_group(self.pid)

    async def end(self) -> None:
        """Kills the worker with all that it started and removes its scratch folder; later calls wait for the first."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        self.kill()
        if self._waiting is not None:
            await self._waiting
        if self._writer is not None:
            self._writer.close()
        self.stdout.close()
        self.stderr.close()
        await asyncio.to_thread(remove_tree, str(self.scratch))
