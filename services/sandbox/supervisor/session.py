"""One session of the supervisor: a worker, its frames and its cells, one at a time."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fathom.core.call import Lane
from fathom.core.errors import Conflict, DependencyFailed, InvalidField, Overloaded, PayloadTooLarge, SessionLost
from fathom.services.sandbox.config import Config
from fathom.services.sandbox.ipc.frames import BadFrame
from fathom.services.sandbox.ipc.memfd import SealedMemory
from fathom.services.sandbox.ipc.owner import NOBODY, Owner
from fathom.services.sandbox.supervisor.cell import Cell, describe_exit
from fathom.services.sandbox.supervisor.events import Event, Outcome, Status, Variable
from fathom.services.sandbox.supervisor.host.procfs import Usage, UsageReader
from fathom.services.sandbox.supervisor.host.scratch_use import ScratchUse
from fathom.services.sandbox.supervisor.recording import Recording
from fathom.services.sandbox.supervisor.worker import reports
from fathom.services.sandbox.supervisor.worker.process import WorkerProcess

# Facts about the columns of a table: "units" and "indicators", each by column.
Facts = Mapping[str, Mapping[str, str]]
# Loading a table of ``frames_bytes`` takes seconds; a worker that needs longer is interrupted.
EXCHANGE_S = 30.0
# A session serves one model, which waits for its cells: a longer queue is a client's error.
QUEUE = 8
# Retries come soon after a cell; the bytes bound what a session that prints much keeps in memory.
KEPT_RECORDS, KEPT_BYTES = 64, 32 * 1024 * 1024
# What breaks the protocol is ended at once and answered later: one new session for it after the other, each of which
# costs milliseconds of all processors, is not to be a flood of its own.
FORGERY_PAUSE_S = 1.0
# Cells that are over before their own watch begins, one behind the other, hide for no longer what others have begun.
UNSEEN_S = 1.0
# Seconds of processor time that what cells have left running may use between two cells: enough to tidy up.
IDLE_CPU_S = 5.0


@dataclass
class Session:
    """A worker with its frames and recordings, which runs one cell at a time.

    Once the worker is lost, only ``restart`` brings the session back.
    """

    id: str
    config: Config
    worker: WorkerProcess
    usage_reader: UsageReader
    frames: dict[str, Frame] = field(default_factory=dict)
    opened_at: float = field(default_factory=time.monotonic)
    last_used_at: float = field(default_factory=time.monotonic)
    lost_cause: str = ""
    cells: int = 0
    owner: Owner = NOBODY
    on_outcome: Callable[[Outcome], None] = lambda outcome: None
    """Callback for every cell's outcome."""
    lane: Lane = Lane.INTERACTIVE
    _records: OrderedDict[str, Recording] = field(default_factory=OrderedDict)
    _waiting: dict[Recording, asyncio.Task[None]] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: tuple[Recording, Cell] | None = None
    _is_exchanging: bool = False
    _rested: tuple[int, float] | None = None
    """Number of cells at the first look after one of them, and the processor time of all processes then."""
    _looked: tuple[int, float] = (0, 0.0)
    """Number of cells at the last look, and when that was on the monotonic clock."""
    _closed: bool = False

    @property
    def is_busy(self) -> bool:
        """True while a cell runs or waits, or a table is put."""
        return bool(self._waiting) or self._lock.locked()

    async def execute(self, request_id: str, code: str, wall_ms: int) -> AsyncGenerator[Event, None]:
        """Yield the events of one cell; for a known ``request_id`` its recorded events, also while it still runs.

        The cell is interrupted when its last caller goes away. Raise ``SessionLost``, ``Conflict`` for another cell
        under the same id, ``Overloaded`` when ``QUEUE`` cells wait, ``InvalidField("session_id")`` when the session's
        cells are used up.
        """
        recording = self._recording(request_id, code, wall_ms)
        recording.viewers += 1
        try:
            async with aclosing(recording.events()) as events:
                async for event in events:
                    yield event
        finally:
            recording.viewers -= 1
            if recording.viewers == 0 and not recording.is_done:
                self._abandon(recording)

    def _recording(self, request_id: str, code: str, wall_ms: int) -> Recording:
        """Return the recording of this request; start the cell if the request is new."""
        known = self._records.get(request_id) if request_id else None
        if known is not None and known.code != code:
            raise Conflict(f"request_id {request_id!r} is another cell", metadata={"field": "request_id"})
        if known is not None:
            return known
        self._check_cells()
        if len(self._waiting) >= QUEUE:
            raise Overloaded(f"{QUEUE} cells wait in session {self.id}", retry_after_s=1.0)
        recording = Recording(code)
        if request_id:
            self._records[request_id] = recording
            self._forget_old()
        wall_s = min(wall_ms or self.config.cell_wall_ms, self.config.cell_wall_ms) / 1000
        task = asyncio.create_task(self._run(recording, request_id, wall_s))
        self._waiting[recording] = task
        task.add_done_callback(lambda _: self._waiting.pop(recording, None))
        return recording

    def _forget_old(self) -> None:
        """Drop the oldest finished recordings beyond ``KEPT_RECORDS`` or ``KEPT_BYTES``."""
        finished = [key for key, recording in self._records.items() if recording.is_done]
        size = sum(recording.size_bytes for recording in self._records.values())
        for key in finished:
            if len(self._records) <= KEPT_RECORDS and size <= KEPT_BYTES:
                return
            size -= self._records.pop(key).size_bytes

    def check_alive(self) -> None:
        """Count as use of the session; raise ``SessionLost`` when the worker is gone."""
        self.last_used_at = time.monotonic()
        if not self.lost_cause and self.worker.exited.is_set():
            self.lost_cause = describe_exit(self.worker.returncode)
        if self.lost_cause:
            raise SessionLost(self.id, self.lost_cause)

    async def check_idle(self) -> None:
        """End the worker when what its cells have left takes more than a session may have between cells.

        A session whose cells follow each other without a gap is looked at ``UNSEEN_S`` seconds after the last look.
        Without a control group nothing else bounds the memory of such processes, and nothing their processor time.
        """
        is_unseen = self.cells != self._looked[0] and time.monotonic() - self._looked[1] >= UNSEEN_S
        if (self.is_busy and not is_unseen) or self.lost_cause or self.worker.exited.is_set():
            return
        cells, worker = self.cells, self.worker
        usage = await self.usage_reader.usage(worker.init_pid, self.last_used_at)
        memory = await worker.measure_memory(usage, self.config.memory_bytes, self.usage_reader)
        scratch = await worker.measure_scratch(usage, self.usage_reader)
        has_cells = self.is_busy or self.cells != cells
        # A cell that began meanwhile has a watch of its own, which a short one does not live to see.
        if (has_cells and not is_unseen) or self.lost_cause or self.worker is not worker:
            return
        self._looked = (cells, time.monotonic())
        if has_cells:
            await self._judge_beside_cells(usage, memory, scratch)
        else:
            await self._judge_between_cells(usage, memory, scratch)

    async def _judge_beside_cells(self, usage: Usage, memory: int, scratch: ScratchUse) -> None:
        """End the worker for what a running cell's own watch would end it for, by the same words."""
        if memory > self.config.memory_bytes:
            status, cause = Status.OOM, f"{memory:,} bytes are over {self.config.memory_bytes:,}"
        elif len(usage.pids) > self.config.processes:
            status, cause = Status.KILLED, f"more than {self.config.processes} processes"
        elif scratch.excess:
            status, cause = Status.DISK_LIMIT, scratch.excess
        else:
            return
        if self._running is not None:
            self._running[1].stop(status, cause, kill=True)
        else:
            await self._lose(cause)

    async def _judge_between_cells(self, usage: Usage, memory: int, scratch: ScratchUse) -> None:
        """End the worker of a session in which no cell runs for memory, processes, files or processor time."""
        if self._rested is None or self._rested[0] != self.cells:
            self._rested = (self.cells, usage.cpu_s)
        used_s = usage.cpu_s - self._rested[1]
        if memory > self.config.memory_bytes:
            await self._lose(f"between two cells it held {memory:,} bytes, over {self.config.memory_bytes:,}")
        elif len(usage.pids) > self.config.processes:
            await self._lose(f"between two cells it had more than {self.config.processes} processes")
        elif scratch.excess:
            await self._lose(f"between two cells it had {scratch.excess}")
        elif used_s > IDLE_CPU_S:
            await self._lose(f"between two cells it used more than {IDLE_CPU_S:g} s of CPU")

    def _check_cells(self) -> None:
        self.check_alive()
        if self.cells >= self.config.cells:
            raise InvalidField("session_id", f"the session has run its {self.config.cells} cells; restart it")

    async def _run(self, recording: Recording, request_id: str, wall_s: float) -> None:
        """Run the cell to its end when its turn comes, with or without callers."""
        async with self._lock:
            # Again: while the cell waited for its turn, the session may have been lost or its cells used up.
            try:
                self._check_cells()
            except (SessionLost, InvalidField) as error:
                self._records.pop(request_id, None)
                recording.fail(error)
                return
            self.cells += 1
            cell = Cell(self.worker, self.config, self.usage_reader, self.cells, recording.add)
            self._running = (recording, cell)
            try:
                outcome = await cell.run(recording.code, wall_s)
            except Exception as error:  # a defect of ours must not end the task that callers wait for
                # Reported as INFRA_ERROR and not recorded, so that the caller may try again.
                self._records.pop(request_id, None)
                cause = f"the sandbox failed: {type(error).__name__}: {error}"
                outcome = Outcome(Status.INFRA_ERROR, cell=self.cells, session_lost=True, cause=cause)
            finally:
                self._running = None
            if outcome.session_lost:
                self.lost_cause = self.lost_cause or outcome.cause
                # A worker that has lost its state is of no use; its memory and its user are free again at once.
                await self.worker.end()
            self.last_used_at = time.monotonic()
            self.on_outcome(outcome)
            if cell.is_forged:
                await asyncio.sleep(FORGERY_PAUSE_S)
            recording.add(outcome)

    def _abandon(self, recording: Recording) -> None:
        """Interrupt a cell without callers, or cancel it before it begins."""
        if self._running is not None and self._running[0] is recording:
            self._running[1].stop(Status.INTERRUPTED, "the caller went away")
            return
        for key in [key for key, known in self._records.items() if known is recording]:
            del self._records[key]
        self._waiting[recording].cancel()

    async def interrupt(self) -> bool:
        """Stop the running cell and wait for its end, or what else the worker is asked for; False when it rests."""
        if self._running is None:
            if self._is_exchanging:
                self.worker.interrupt()
            return self._is_exchanging
        cell = self._running[1]
        cell.stop(Status.INTERRUPTED, "interrupted by the caller")
        await cell.finished.wait()
        return True

    async def inject(self, name: str, memory: SealedMemory, *, lazy: bool = False, facts: Facts | None = None) -> None:
        """Put an Arrow stream into the namespace, to be loaded at first use when ``lazy``; a restart puts it back.

        Take ownership of the memory. Raise ``SessionLost``, ``PayloadTooLarge`` when the session's frames together are
        over their limit, and ``DependencyFailed`` when the worker cannot load it.
        """
        try:
            async with self._lock:
                self.check_alive()
                size = sum(frame.memory.size for key, frame in self.frames.items() if key != name) + memory.size
                if size > self.config.frames_bytes:
                    raise PayloadTooLarge(size, self.config.frames_bytes)
                frame = Frame(memory, lazy, facts or {})
                await self._inject(name, frame)
        except BaseException:  # cancellation included: the memory file is ours
            memory.close()
            raise
        if name in self.frames:
            self.frames[name].memory.close()
        self.frames[name] = frame

    async def _inject(self, name: str, frame: Frame) -> None:
        # Half of the memory is for loaded tables, the other half for what cells make of them.
        request = {
            "kind": "inject",
            "name": name,
            "lazy": frame.lazy,
            "loaded_bytes": self.config.memory_bytes // 2,
            "facts": frame.facts,
        }
        done = await self._exchange(request, frame.memory.descriptor)
        if done.error_name:
            raise DependencyFailed("sandbox worker", f"{name} was not injected: {done.error_name}")

    async def list_variables(self) -> tuple[Variable, ...]:
        """Return the session's variables, sorted by name; raise ``DependencyFailed`` when the worker cannot."""
        async with self._lock:
            self.check_alive()
            found = await self._exchange({"kind": "variables"})
            if found.error_name:
                raise DependencyFailed("sandbox worker", f"the variables were not listed: {found.error_name}")
            return found.variables

    async def _exchange(self, request: dict[str, Any], descriptor: int = -1) -> reports.WorkerResult:
        """Send a request other than a cell and return its answer; end a worker that does not answer properly.

        Raise ``SessionLost`` then.
        """
        # New for each request, so that what an earlier cell has left in the socket is not taken for the answer.
        nonce = secrets.token_hex(16)
        message = {**request, "nonce": nonce}
        self._is_exchanging = True
        try:
            async with asyncio.timeout(EXCHANGE_S):
                await (self.worker.send(message) if descriptor < 0 else self.worker.send_with(message, descriptor))
            return reports.parse_result(await self._receive(nonce))
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            await self._lose(describe_exit(self.worker.returncode))
            if isinstance(error, BadFrame):
                await asyncio.sleep(FORGERY_PAUSE_S)
            raise SessionLost(self.id, self.lost_cause) from error
        except asyncio.CancelledError:
            # Half a frame may have been read; what follows could not be told apart.
            await self._lose("a request was cancelled while the worker answered it")
            raise
        finally:
            self._is_exchanging = False

    async def _receive(self, nonce: str) -> Sequence[str]:
        """Return the texts that the worker answers; interrupt it when it takes too long, then lose it."""
        answer = asyncio.ensure_future(self.worker.receive(nonce))
        try:
            done, _ = await asyncio.wait({answer}, timeout=EXCHANGE_S)
            if not done:
                self.worker.interrupt()
                await asyncio.wait({answer}, timeout=self.config.interrupt_grace_s)
            if not answer.done():
                raise TimeoutError
            return answer.result().texts
        finally:
            answer.cancel()

    async def _lose(self, cause: str) -> None:
        self.lost_cause = self.lost_cause or cause
        await self.worker.end()

    async def _stop(self, cause: str) -> None:
        """End the worker, and with it the running cell; waiting cells find the session lost."""
        # Before the worker ends, so that waiting cells report this cause and not an exit status.
        self.lost_cause = cause
        if self._running is not None:
            self._running[1].stop(Status.KILLED, cause, kill=True)
        await self.worker.end()

    async def restart(self, worker: WorkerProcess) -> list[str]:
        """Continue with a new worker that has the frames and nothing else; return the frames' names.

        A running cell is killed. Raise ``SessionLost`` if the session was closed meanwhile.
        """
        await self._stop("the session was restarted")
        async with self._lock:
            if self._closed:
                raise SessionLost(self.id, "the session was closed")
            # Cells are counted per worker: a restart is what the error about used-up cells asks for.
            self.worker, self.lost_cause, self.cells = worker, "", 0
            self.last_used_at = time.monotonic()
            for name, frame in self.frames.items():
                await self._inject(name, frame)
            return list(self.frames)

    async def close(self) -> None:
        """End the worker and forget everything."""
        self._closed = True
        await self._stop("the session was closed")
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)
        for frame in self.frames.values():
            frame.memory.close()
        self.frames.clear()
        self._records.clear()


@dataclass(frozen=True)
class Frame:
    """An Arrow stream in memory, shared with workers."""

    memory: SealedMemory
    lazy: bool
    facts: Facts
