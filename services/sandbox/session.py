"""One session of the supervisor: a worker, its frames and its cells, one at a time."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fathom.errors import Conflict, DependencyFailed, InvalidField, Overloaded, PayloadTooLarge, SessionLost
from services.sandbox import claims
from services.sandbox.cell import Cell, ended
from services.sandbox.config import Config
from services.sandbox.events import Event, Outcome, Status, Variable
from services.sandbox.memory import Memory
from services.sandbox.process import WorkerProcess
from services.sandbox.procfs import Census
from services.sandbox.recording import Recording
from services.sandbox.wire import BadFrame

EXCHANGE_S = 30.0
QUEUE = 8
KEPT_RECORDS, KEPT_BYTES = 64, 32 * 1024 * 1024


@dataclass
class Session:
    """A worker with its frames and recordings, which runs one cell at a time.

    Once the worker is lost, only ``restart`` brings the session back.
    """

    id: str
    config: Config
    worker: WorkerProcess
    census: Census
    frames: dict[str, Frame] = field(default_factory=dict)
    opened: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)
    lost: str = ""
    cells: int = 0
    tenant: str = ""
    ended: Callable[[Outcome], None] = lambda outcome: None
    """Callback for every cell's outcome."""
    _records: OrderedDict[str, Recording] = field(default_factory=OrderedDict)
    _waiting: dict[Recording, asyncio.Task[None]] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: tuple[Recording, Cell] | None = None
    _closed: bool = False

    @property
    def busy(self) -> bool:
        """True while a cell runs or waits."""
        return bool(self._waiting)

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
            if recording.viewers == 0 and not recording.done:
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
        finished = [key for key, recording in self._records.items() if recording.done]
        size = sum(recording.size_bytes for recording in self._records.values())
        for key in finished:
            if len(self._records) <= KEPT_RECORDS and size <= KEPT_BYTES:
                return
            size -= self._records.pop(key).size_bytes

    def check_alive(self) -> None:
        """Count as use of the session; raise ``SessionLost`` when the worker is gone."""
        self.used = time.monotonic()
        if not self.lost and self.worker.exited.is_set():
            self.lost = ended(self.worker.returncode)
        if self.lost:
            raise SessionLost(self.id, self.lost)

    def _check_cells(self) -> None:
        self.check_alive()
        if self.cells >= self.config.cells:
            raise InvalidField("session_id", f"the session has run its {self.config.cells} cells; restart it")

    async def _run(self, recording: Recording, request_id: str, wall_s: float) -> None:
        """Run the cell to its end when its turn comes, with or without callers."""
        async with self._lock:
            try:
                self._check_cells()
            except (SessionLost, InvalidField) as error:
                self._records.pop(request_id, None)
                recording.fail(error)
                return
            self.cells += 1
            cell = Cell(self.worker, self.config, self.census, self.cells, recording.add)
            self._running = (recording, cell)
            try:
                outcome = await cell.run(recording.code, wall_s)
            except Exception as error:
                # Ours, not the code's: said as such, not kept, so that the caller may try again.
                self._records.pop(request_id, None)
                cause = f"the sandbox failed: {type(error).__name__}: {error}"
                outcome = Outcome(Status.INFRA_ERROR, cell=self.cells, session_lost=True, cause=cause)
            finally:
                self._running = None
            if outcome.session_lost:
                self.lost = self.lost or outcome.cause
                await self.worker.end()
            self.used = time.monotonic()
            self.ended(outcome)
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
        """Stop the running cell and wait for its end; return False when there is none."""
        if self._running is None:
            return False
        cell = self._running[1]
        cell.stop(Status.INTERRUPTED, "interrupted by the caller")
        await cell.finished.wait()
        return True

    async def inject(self, name: str, memory: Memory, *, lazy: bool = False) -> None:
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
                frame = Frame(memory, lazy)
                await self._inject(name, frame)
        except BaseException:
            memory.close()
            raise
        if name in self.frames:
            self.frames[name].memory.close()
        self.frames[name] = frame

    async def _inject(self, name: str, frame: Frame) -> None:
        request = {"kind": "inject", "name": name, "lazy": frame.lazy, "loaded_bytes": self.config.memory_bytes // 2}
        done = await self._exchange(request, frame.memory.descriptor)
        if done.error_name:
            raise DependencyFailed("sandbox worker", f"{name} was not injected: {done.error_name}")

    async def variables(self) -> tuple[Variable, ...]:
        """Return the session's variables, sorted by name."""
        async with self._lock:
            self.check_alive()
            return (await self._exchange({"kind": "variables"})).variables

    async def _exchange(self, request: dict[str, Any], descriptor: int = -1) -> claims.Done:
        """Send a request that is no cell and return its answer; end a worker that does not answer properly.

        Raise ``SessionLost`` then.
        """
        nonce = secrets.token_hex(16)
        try:
            async with asyncio.timeout(EXCHANGE_S):
                message = {**request, "nonce": nonce}
                await (self.worker.send(message) if descriptor < 0 else self.worker.send_with(message, descriptor))
                while (frame := await self.worker.receive()).get("nonce") != nonce:
                    continue
                return claims.done(frame)
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            await self._lose(ended(self.worker.returncode))
            raise SessionLost(self.id, self.lost) from error
        except asyncio.CancelledError:
            # Half a frame may have been read; what follows could not be told apart.
            await self._lose("a request was cancelled while the worker answered it")
            raise

    async def _lose(self, cause: str) -> None:
        self.lost = self.lost or cause
        await self.worker.end()

    async def _stop(self, cause: str) -> None:
        """End the worker, and with it the running cell; waiting cells find the session lost."""
        self.lost = cause
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
            self.worker, self.lost, self.cells = worker, "", 0
            self.used = time.monotonic()
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

    memory: Memory
    lazy: bool
