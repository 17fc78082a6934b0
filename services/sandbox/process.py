"""Supervisor's handle to one worker process: start behind its walls, socket, pipes, end."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fathom.errors import DependencyFailed
from services.sandbox import procfs
from services.sandbox.cgroups import Bounds, Cgroups, Group
from services.sandbox.config import Config
from services.sandbox.files import remove_tree
from services.sandbox.fork_server import ForkServer
from services.sandbox.jail.plan import Plan
from services.sandbox.leash import Leash
from services.sandbox.pipe import Pipe
from services.sandbox.uids import Uids
from services.sandbox.wire import HEADER, BadFrame, length, pack, unpack

ADDRESS_SPACE = 4 * 1024**3
OPEN_FILES = 256
STACK = 16 * 1024 * 1024
SHM_BYTES = 16 * 1024 * 1024
START_CPU_S = 10
LARGE_FRAME = 256 * 1024
SEND_TRIES, SEND_PAUSE_S = 500, 0.01
END_S = 2.0


@dataclass(frozen=True)
class Jailer:
    """Resources with which the walls of every session are built; ``cgroups`` is None where there can be none."""

    fork_server: ForkServer
    walls: str
    cgroups: Cgroups | None
    uids: Uids


class WorkerProcess:
    """Handle to one worker behind its walls; ``exited`` is set when it and all that it started have ended."""

    def __init__(self, config: Config, jailer: Jailer) -> None:
        self._config, self._jailer = config, jailer
        self.stdout, self.stderr = Pipe("stdout"), Pipe("stderr")
        self.exited = asyncio.Event()
        self.pid = 0
        self._leash = Leash()
        self._ours, self._theirs = socket.socketpair()
        self._writer: asyncio.StreamWriter | None = None
        self._group: Group | None = None
        self._uid = -1
        self._folder = ""
        self._oom_kills = 0
        self._waiting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def returncode(self) -> int | None:
        """Exit status of the worker, negative for a signal; None while it lives."""
        return self._leash.code

    @property
    def init_pid(self) -> int:
        """Process id of the session's init process, from which all others descend."""
        return self._leash.init_pid

    @property
    def scratch(self) -> int:
        """Descriptor of the scratch folder; -1 when there is none."""
        return self._leash.scratch

    @property
    def oom_kills(self) -> int:
        """Number of processes that the kernel has killed for lack of memory, as the control group counts them."""
        return self._group.oom_kills() if self._group is not None else self._oom_kills

    async def start(self) -> None:
        """Start the worker and wait until it is ready; raise ``DependencyFailed``, and leave nothing then."""
        try:
            async with asyncio.timeout(self._config.start_timeout_s):
                await self._spawn()
                await self._leash.started()
                await self.receive()
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            words = bytearray()
            self.stderr.sink = lambda _, data: words.extend(data)
            self.stderr.drain()
            await self.end()
            detail = self._leash.trouble or words.decode(errors="replace").strip()[-400:]
            text = f"did not start: {type(error).__name__}, status {self.returncode} {detail}".strip()
            raise DependencyFailed("sandbox worker", text) from error
        except BaseException:
            await self.end()
            raise
        self.pid = procfs.first_child(self.init_pid)

    async def _spawn(self) -> None:
        if self._jailer.cgroups is not None:
            self._group = self._jailer.cgroups.create(self._bounds(self._config.memory_bytes))
        self._uid = self._jailer.uids.take()
        if self._jailer.walls != "namespace":
            self._folder = tempfile.mkdtemp(prefix="fathom-session-")
            if self._uid >= 0:
                os.chown(self._folder, self._uid, self._uid)
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)
        transport = self._writer.transport
        transport.set_write_buffer_limits(high=0)
        given = [self._leash.theirs.fileno(), self._theirs.fileno(), self.stdout.fileno(), self.stderr.fileno()]
        try:
            await self._jailer.fork_server.fork(self._plan(), given)
        finally:
            self._leash.listen()
            self._theirs.close()
            for pipe in (self.stdout, self.stderr):
                pipe.close_write_end()
            self._waiting = asyncio.create_task(self._wait())

    def _bounds(self, memory_bytes: int) -> Bounds:
        return Bounds(memory_bytes, self._config.processes, self._config.cores)

    def _plan(self) -> Plan:
        config = self._config
        limits = {
            "AS": ADDRESS_SPACE,
            "CPU": START_CPU_S + max(1, config.cpu_ms // 1000),
            "FSIZE": config.scratch_bytes,
            "NOFILE": OPEN_FILES,
            # Without a user of its own the kernel counts all of the user's processes, and only the watch counts well.
            "NPROC": config.processes if self._uid >= 0 or self._jailer.walls == "namespace" else 4096,
            "CORE": 0,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
            "STACK": STACK,
        }
        return Plan(
            self._jailer.walls,
            self._uid,
            limits,
            self._folder,
            config.scratch_bytes,
            config.scratch_files,
            SHM_BYTES,
            self._group.procs if self._group else (),
        )

    async def _wait(self) -> None:
        """Wait for the end of the init process, then kill what has left it; set ``exited``."""
        await self._leash.ended.wait()
        if self._folder and self.init_pid:
            await asyncio.to_thread(procfs.sweep, self.init_pid, f"HOME={self._folder}".encode())
        self.exited.set()

    async def send(self, message: dict[str, Any]) -> None:
        assert self._writer is not None, "the worker was not started"
        self._writer.write(pack(message))
        await self._writer.drain()

    async def send_with(self, message: dict[str, Any], descriptor: int) -> None:
        """Send a small message with one descriptor; raise ``OSError`` when the worker does not take it."""
        frame = pack(message)
        for _ in range(SEND_TRIES):
            try:
                sent = socket.send_fds(self._ours, [frame], [descriptor])
            except BlockingIOError:
                await asyncio.sleep(SEND_PAUSE_S)
                continue
            if sent != len(frame):
                raise OSError("half a message was sent")
            return
        raise OSError("the worker does not read")

    async def receive(self) -> dict[str, Any]:
        """Return the next frame; raise ``BadFrame`` or ``IncompleteReadError``."""
        size = length(await self._reader.readexactly(HEADER.size))
        body = await self._reader.readexactly(size)
        return unpack(body) if size < LARGE_FRAME else await asyncio.to_thread(unpack, body)

    def limit_memory(self, memory_bytes: int) -> None:
        """Tighten the limit of the control group, if there is one, to this number of bytes."""
        if self._group is not None:
            with suppress(OSError):
                self._group.limit(self._bounds(memory_bytes))

    def interrupt(self) -> None:
        """Send SIGINT to the worker only; do nothing when it has ended."""
        self._leash.interrupt()

    def kill(self) -> None:
        """Kill the worker with all that it has started; ``exited`` is set soon after."""
        if self._jailer.walls == "namespace":
            self._leash.kill()
        else:
            self._leash.end()

    async def end(self) -> None:
        """Kill the worker with all that it started and release its resources; later calls wait for the first."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._waiting is not None:
            self.kill()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.exited.wait(), END_S)
            self._leash.kill()
            await self._waiting
        self._oom_kills = self.oom_kills
        self._leash.close()
        if self._writer is not None:
            self._writer.close()
        else:
            self._ours.close()
        self._theirs.close()
        self.stdout.close()
        self.stderr.close()
        self._jailer.uids.give_back(self._uid)
        if self._group is not None and self._jailer.cgroups is not None:
            self._jailer.cgroups.remove(self._group)
            self._group = None
        if self._folder:
            await asyncio.to_thread(remove_tree, self._folder)
