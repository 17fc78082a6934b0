"""Supervisor's handle to one worker process: start behind its walls, socket, pipes, end."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import DependencyFailed, InvalidField, PayloadTooLarge
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.ipc.frames import (
    FRAME_HEADER,
    NO_NONCE,
    BadFrame,
    FrameKind,
    pack_request,
    read_head,
    split_texts,
)
from fathom.services.sandbox.ipc.plan import SessionPlan
from fathom.services.sandbox.supervisor.files import remove_tree
from fathom.services.sandbox.supervisor.host import procfs
from fathom.services.sandbox.supervisor.host.cgroups import Cgroups, Group, GroupLimits
from fathom.services.sandbox.supervisor.host.memory import MemoryGauge
from fathom.services.sandbox.supervisor.host.procfs import FRESH_COSTS, Usage, UsageReader
from fathom.services.sandbox.supervisor.host.scratch import ScratchFolders
from fathom.services.sandbox.supervisor.host.scratch_use import ScratchLimits, ScratchUse, measure_scratch
from fathom.services.sandbox.supervisor.host.uids import UidPool
from fathom.services.sandbox.supervisor.worker.cell_scheduler import CellScheduler
from fathom.services.sandbox.supervisor.worker.fork_server_client import ForkServerClient
from fathom.services.sandbox.supervisor.worker.init_handle import InitHandle
from fathom.services.sandbox.supervisor.worker.pipe import OutputPipe
from fathom.services.sandbox.supervisor.worker.precedence import Precedence

# Address space is not memory: libraries map far more than they use. The memory limit is another.
ADDRESS_SPACE = 4 * 1024**3
# Enough for data work, few enough that a session cannot exhaust the machine's file table.
OPEN_FILES = 256
# Twice the usual 8 MiB, for deep recursion in parsers; Python's own limit ends endless recursion first.
STACK = 16 * 1024 * 1024
# Semaphores and queues of ``multiprocessing`` need little; data belongs into the quota of the scratch folder.
SHM_BYTES = 16 * 1024 * 1024
# RLIMIT_CPU is the backstop of the watch and must not fire before it.
START_CPU_S = 10
# Five seconds for a worker that is busy; after that it does not read any more.
SEND_TRIES, SEND_PAUSE_S = 500, 0.01
# A kill takes milliseconds; then the init process is killed too, which cannot be delayed by the session.
END_S = 2.0
# Then the kernel itself keeps a process, in a call to a disk that does not answer, say; on a machine that is merely
# full all are gone by now.
STUCK_S = 30.0


@dataclass(frozen=True)
class JailResources:
    """Resources with which the walls of every session are built.

    ``cgroups`` is None where there can be none; ``may_lower_nice`` says whether a nice value can be taken back.
    """

    fork_server: ForkServerClient
    walls: str
    cgroups: Cgroups | None
    uids: UidPool
    scratch: ScratchFolders
    scheduler: CellScheduler
    may_lower_nice: bool = False


@dataclass(frozen=True)
class Frame:
    """Texts of the worker, with the bytes of its display."""

    kind: FrameKind
    texts: Sequence[str]
    data: bytes = b""


class WorkerProcess:
    """Handle to one worker behind its walls.

    ``exited`` is set when it and all that it started have ended, or are given up because the kernel does not end them.
    """

    def __init__(self, config: Config, jailer: JailResources) -> None:
        self._config, self._jailer = config, jailer
        self.stdout, self.stderr = OutputPipe("stdout"), OutputPipe("stderr")
        self.exited = asyncio.Event()
        self.pid = 0
        self._init = InitHandle()
        self._ours, self._theirs = socket.socketpair()
        self._writer: asyncio.StreamWriter | None = None
        self._group: Group | None = None
        self._uid = -1
        self._folder = ""
        self._oom_kills = 0
        self._precedence: Precedence | None = None
        self._gauge = MemoryGauge()
        self._scratch_limits = ScratchLimits(config.scratch_bytes, config.scratch_files)
        self._scratch_use, self._scratch_due = ScratchUse(), 0.0
        self._waiting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None
        self.is_stuck = False

    @property
    def returncode(self) -> int | None:
        """Exit status of the worker, negative for a signal; None while it lives."""
        return self._init.code

    @property
    def init_pid(self) -> int:
        """Process id of the session's init process, from which all others descend."""
        return self._init.init_pid

    @property
    def scratch(self) -> int:
        """Descriptor of the scratch folder; -1 when there is none."""
        return self._init.scratch

    @property
    def oom_kills(self) -> int:
        """Number of processes that the kernel has killed for lack of memory, as the control group counts them."""
        return self._group.oom_kills() if self._group is not None else self._oom_kills

    async def start(self) -> None:
        """Start the worker and wait until it is ready; raise ``DependencyFailed``, and leave nothing then."""
        try:
            async with asyncio.timeout(self._config.start_timeout_s):
                await self._spawn()
                await self._init.wait_until_started()
                await self.receive()
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            words = bytearray()
            self.stderr.sink = lambda _, data: words.extend(data)
            self.stderr.drain()
            await self.end()
            detail = self._init.trouble or words.decode(errors="replace").strip()[-400:]
            text = f"did not start: {type(error).__name__}, status {self.returncode} {detail}".strip()
            raise DependencyFailed("sandbox worker", text) from error
        except BaseException:  # cancellation included: no process may be left without an owner
            await self.end()
            raise
        self.pid = procfs.find_first_child(self.init_pid)
        jailer = self._jailer
        self._precedence = Precedence(
            self.pid, self._group, jailer.scheduler, self._init.signal_all, is_reversible=jailer.may_lower_nice
        )

    async def _spawn(self) -> None:
        if self._jailer.cgroups is not None:
            self._group = self._jailer.cgroups.create(self._build_limits(self._config.memory_bytes))
        self._uid = self._jailer.uids.lend()
        if self._jailer.walls != "namespace":
            # Without a file system of its own the session works in a folder of the host's.
            self._folder = self._jailer.scratch.create(self._uid)
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)
        transport = self._writer.transport
        # So that drain() returns only when the kernel has taken everything: send_with writes past this buffer.
        transport.set_write_buffer_limits(high=0)
        given = [self._init.theirs.fileno(), self._theirs.fileno(), self.stdout.fileno(), self.stderr.fileno()]
        try:
            await self._jailer.fork_server.fork(self._build_plan(), given)
        finally:
            # Also after a failure: a copy of the other end in this process would hide that the worker has ended.
            self._init.listen()
            self._theirs.close()
            for pipe in (self.stdout, self.stderr):
                pipe.close_write_end()
            self._waiting = asyncio.create_task(self._wait())

    def _build_limits(self, memory_bytes: int) -> GroupLimits:
        return GroupLimits(memory_bytes, self._config.processes, self._config.cores)

    def _build_plan(self) -> SessionPlan:
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
        return SessionPlan(
            self._jailer.walls,
            self._uid,
            limits,
            self._folder,
            config.scratch_bytes,
            config.scratch_files,
            SHM_BYTES,
            config.processes,
            self._group.procs if self._group else (),
        )

    async def _wait(self) -> None:
        """Wait for the end of the init process, then kill what has left it; set ``exited``."""
        await self._init.ended.wait()
        if self._folder and self.init_pid:
            marker = f"HOME={self._folder}".encode()
            await asyncio.to_thread(procfs.kill_leftovers, self.init_pid, marker, self._uid)
        self.exited.set()

    async def send(self, message: dict[str, Any]) -> None:
        assert self._writer is not None, "the worker was not started"
        self._writer.write(pack_request(message))
        await self._writer.drain()

    async def send_with(self, message: dict[str, Any], descriptor: int) -> None:
        """Send a small message with one descriptor; raise ``OSError`` when the worker does not take it."""
        frame = pack_request(message)
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

    async def receive(self, nonce: str = NO_NONCE) -> Frame:
        """Return the next frame; raise ``BadFrame``, also for one with another nonce, or ``IncompleteReadError``."""
        head = read_head(await self._reader.readexactly(FRAME_HEADER.size), nonce)
        texts = split_texts(await self._reader.readexactly(head.text_bytes))
        data = await self._reader.readexactly(head.data_bytes) if head.data_bytes else b""
        return Frame(head.kind, texts, data)

    def limit_memory(self, memory_bytes: int) -> None:
        """Tighten the limit of the control group, if there is one, to this number of bytes."""
        if self._group is not None:
            with suppress(OSError):
                self._group.limit(self._build_limits(memory_bytes))

    @property
    def precedence(self) -> Precedence:
        """Precedence of its processes on the processors."""
        assert self._precedence is not None, "the worker was not started"
        return self._precedence

    async def measure_memory(self, usage: Usage, limit: int, reader: UsageReader) -> int:
        """Return the bytes of the session's processes, as its control group counts them where these may be over."""
        if self._group is not None and usage.resident_bytes > limit:
            return self._group.read_memory_bytes()
        return await self._gauge.measure(usage, limit, reader.read_pss)

    async def measure_scratch(self, usage: Usage, reader: UsageReader) -> ScratchUse:
        """Return the use of the scratch folder where nothing but the watch bounds it, else no use at all."""
        # Many files take milliseconds to count, of which a session may cost a tenth of a processor.
        if self._folder and time.monotonic() >= self._scratch_due:
            use = await reader.read_in_turn(measure_scratch, self._folder, usage.pids, self._scratch_limits)
            self._scratch_use, self._scratch_due = use, time.monotonic() + FRESH_COSTS * use.cost_s
        return self._scratch_use

    async def check_room(self, size_bytes: int, reader: UsageReader) -> None:
        """Raise ``PayloadTooLarge`` or ``InvalidField("path")`` where one more file would be over the folder's limits.

        A file system of the session's own says so itself.
        """
        if not self._folder:
            return
        limits = self._scratch_limits
        use = await reader.read_in_turn(measure_scratch, self._folder, (), limits)
        if use.size_bytes + size_bytes > limits.size_bytes:
            raise PayloadTooLarge(size_bytes, max(0, limits.size_bytes - use.size_bytes))
        if use.files >= limits.files:
            raise InvalidField("path", f"the scratch folder holds at most {limits.files:,} files and folders")

    def interrupt(self) -> None:
        """Send SIGINT to the worker only; do nothing when it has ended."""
        self._init.interrupt()

    def kill(self) -> None:
        """Kill the worker with all that it has started; ``exited`` is set soon after."""
        if self._jailer.walls == "namespace":
            self._init.kill()
        else:
            self._init.end()

    async def end(self) -> None:
        """Kill the worker with all that it started and release its resources; later calls wait for the first.

        Return after ``END_S`` and ``STUCK_S`` seconds at the latest, or after the removal of the scratch folder, whose
        files are bounded. What the kernel holds for longer (``is_stuck``) keeps its user and folder until its end.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._waiting is not None:
            self.kill()
            if not await self._has_exited(END_S):
                self._init.kill()
                self.is_stuck = not await self._has_exited(STUCK_S)
        if self.is_stuck:
            # Whoever waits for the end goes on; the user and the folder are nobody else's before it has come.
            self.exited.set()
            self._releasing = asyncio.create_task(self._release())
        else:
            await self._release()

    async def _has_exited(self, within_s: float) -> bool:
        """Return whether all have ended, at the latest after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.exited.wait()
        return self.exited.is_set()

    async def _release(self) -> None:
        """Release the resources once all processes have ended."""
        if self._waiting is not None:
            await self._waiting
        # Read while the group is still there: the outcome of the last cell asks for it.
        self._oom_kills = self.oom_kills
        self._init.close()
        if self._writer is not None:
            self._writer.close()
        else:
            self._ours.close()
        self._theirs.close()
        self.stdout.close()
        self.stderr.close()
        self._jailer.uids.give_back(self._uid)
        if self._group is not None and self._jailer.cgroups is not None:
            # Milliseconds each where many end at once, in which the loop would do nothing else.
            await asyncio.to_thread(self._jailer.cgroups.remove, self._group)
            self._group = None
        if self._folder:
            await asyncio.to_thread(remove_tree, self._folder)
