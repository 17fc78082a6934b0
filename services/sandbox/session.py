"""One session: a worker, its frames, its cells; measured and ended from outside the worker."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import signal
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from fathom.errors import Conflict, DependencyFailed, InvalidField, SessionLost
from services.sandbox.config import Config
from services.sandbox.events import Display, Event, Outcome, Output, Status, Variable
from services.sandbox.output import Budget
from services.sandbox.process import WorkerProcess
from services.sandbox.wire import BadFrame, items, text

MEDIA_TYPES = frozenset({"application/vnd.plotly.v1+json", "image/png", "text/html"})
WATCH_S = 0.1
INJECT_S = 30.0
KEPT_RECORDS = 64
TEXT, DISPLAYS, VARIABLES = 64 * 1024, 20, 200


@dataclass
class Cell:
    """A running cell, as the supervisor knows it."""

    nonce: str
    started: float
    budget: Budget
    events: asyncio.Queue[Output]
    peak: int = 0
    stop: Status | None = None
    cause: str = ""


@dataclass
class Session:
    """Runs one cell at a time. After its worker is lost only ``restart`` helps."""

    id: str
    config: Config
    worker: WorkerProcess
    frames: dict[str, bytes] = field(default_factory=dict)
    used: float = field(default_factory=time.monotonic)
    lost: str = ""
    cells: int = 0
    _records: OrderedDict[str, tuple[str, tuple[Event, ...]]] = field(default_factory=OrderedDict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: Cell | None = None

    async def execute(self, request_id: str, code: str, wall_ms: int) -> AsyncGenerator[Event, None]:
        """Events of one cell; a known ``request_id`` gives its recorded events again.

        Raises ``SessionLost``, ``Conflict`` for another cell under the same id, and ``InvalidField("cells")``
        when the session's cells are used up.
        """
        async with self._lock:
            known = self._records.get(request_id) if request_id else None
            if known is not None:
                if known[0] != code:
                    raise Conflict(f"request_id {request_id!r} is another cell", metadata={"field": "request_id"})
                for event in known[1]:
                    yield event
                return
            self._check()
            events: list[Event] = []
            async for event in self._run(code, wall_ms):
                events.append(event)
                yield event
            if request_id:
                self._records[request_id] = (code, tuple(events))
                while len(self._records) > KEPT_RECORDS:
                    self._records.popitem(last=False)

    def _check(self) -> None:
        self.used = time.monotonic()
        if self.lost:
            raise SessionLost(self.id, self.lost)
        if self.cells >= self.config.cells:
            raise InvalidField("session_id", f"the session has run its {self.config.cells} cells; restart it")

    async def _run(self, code: str, wall_ms: int) -> AsyncGenerator[Event, None]:
        self.cells += 1
        cell = Cell(secrets.token_hex(8), time.monotonic(), Budget(self.config.output_bytes), asyncio.Queue())
        for pipe in (self.worker.stdout, self.worker.stderr):
            pipe.direct(cell.budget, lambda stream, data: cell.events.put_nowait(Output(stream, data)))
        self._running = cell
        wall_s = min(wall_ms or self.config.cell_wall_ms, self.config.cell_wall_ms) / 1000
        asked = asyncio.create_task(self._ask({"kind": "execute", "code": code}, cell.nonce))
        duties: list[asyncio.Task[Any]] = [asked, asyncio.create_task(self.worker.exited.wait())]
        guards = [asyncio.create_task(self._limit(cell, wall_s)), asyncio.create_task(self._watch(cell))]
        try:
            async for output in self._outputs(cell, duties):
                yield output
            reply = await self._reply(cell, asked)
            for display in displays(reply):
                yield display
            yield self._outcome(cell, reply)
        except (asyncio.CancelledError, GeneratorExit):
            await self._abandon(cell, asked)
            raise
        finally:
            self._running = None
            self.used = time.monotonic()
            for task in (*duties, *guards):
                task.cancel()
            await asyncio.gather(*duties, *guards, return_exceptions=True)

    async def _outputs(self, cell: Cell, duties: list[asyncio.Task[Any]]) -> AsyncGenerator[Output, None]:
        """Output until the worker has answered or ended, and what is left in the pipes then."""
        while not any(duty.done() for duty in duties):
            waiting = asyncio.create_task(cell.events.get())
            await asyncio.wait({waiting, *duties}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                yield waiting.result()
            else:
                waiting.cancel()
        for pipe in (self.worker.stdout, self.worker.stderr):
            pipe.drain()
        while not cell.events.empty():
            yield cell.events.get_nowait()

    async def _reply(self, cell: Cell, asked: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
        """What the worker claims; {} when it is gone, and then ``lost`` says why."""
        try:
            if asked.done():
                return asked.result()
        except (BadFrame, asyncio.IncompleteReadError, OSError) as error:
            if isinstance(error, BadFrame):
                cell.stop, cell.cause = Status.KILLED, f"the worker broke the protocol: {error}"
        await self.worker.end()
        self.lost = cell.cause or ended(self.worker.returncode)
        return {}

    async def _ask(self, request: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Sends a request and waits for its reply; frames of other cells are dropped."""
        await self.worker.send({**request, "nonce": nonce})
        while True:
            reply = await self.worker.receive()
            if reply.get("kind") == "done" and reply.get("nonce") == nonce:
                return reply

    async def _limit(self, cell: Cell, wall_s: float) -> None:
        await asyncio.sleep(wall_s)
        await self._break(cell, Status.TIMEOUT, f"the cell ran longer than {wall_s:g} s")

    async def _break(self, cell: Cell, status: Status, cause: str) -> None:
        """Interrupts a cell, and ends its worker when that is not enough."""
        cell.stop, cell.cause = cell.stop or status, cell.cause or cause
        self.worker.signal(signal.SIGINT)
        await asyncio.sleep(self.config.interrupt_grace_s)
        self.worker.signal(signal.SIGKILL)

    async def _watch(self, cell: Cell) -> None:
        """Ends the worker when its session holds too much memory or floods its output."""
        while True:
            memory = await asyncio.to_thread(self.worker.memory_bytes)
            cell.peak = max(cell.peak, memory)
            if memory > self.config.memory_bytes:
                cell.stop, cell.cause = Status.OOM, f"{memory:,} bytes are over {self.config.memory_bytes:,}"
            elif cell.budget.seen > self.config.flood_bytes:
                cell.stop, cell.cause = Status.OUTPUT_LIMIT, f"more than {self.config.flood_bytes:,} bytes of output"
            if cell.stop in (Status.OOM, Status.OUTPUT_LIMIT):
                self.worker.signal(signal.SIGKILL)
                return
            await asyncio.sleep(WATCH_S)

    async def _abandon(self, cell: Cell, asked: asyncio.Task[dict[str, Any]]) -> None:
        """The caller went away: the cell is interrupted, the session stays when it stops in time."""
        breaking = asyncio.create_task(self._break(cell, Status.INTERRUPTED, "the caller went away"))
        gone = asyncio.create_task(self.worker.exited.wait())
        await asyncio.wait({asked, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in (breaking, gone):
            task.cancel()
        await asyncio.gather(breaking, gone, return_exceptions=True)
        await self._reply(cell, asked)

    def _outcome(self, cell: Cell, reply: dict[str, Any]) -> Outcome:
        """Facts from outside first; the worker's claims fill in the rest."""
        error_name = text(reply, "error_name", 200)
        status = Status.ERROR if error_name else Status.OK
        if cell.stop is not None and (self.lost or error_name == "KeyboardInterrupt"):
            status = cell.stop
        elif self.lost:
            status = Status.TIMEOUT if self.worker.returncode == -signal.SIGXCPU else Status.KILLED
        return Outcome(
            status,
            text(reply, "result", TEXT),
            text(reply, "traceback", TEXT),
            error_name,
            text(reply, "error_value", TEXT),
            as_variables(reply, "changed"),
            int((time.monotonic() - cell.started) * 1000),
            cell.peak,
            cell.budget.dropped,
            self.cells,
            bool(self.lost),
            self.lost or (cell.cause if status is cell.stop else ""),
        )

    async def inject(self, name: str, arrow: bytes) -> None:
        """Puts a frame into the namespace; it comes back after a restart."""
        async with self._lock:
            self._check()
            await self._inject(name, arrow)
            self.frames[name] = arrow

    async def _inject(self, name: str, arrow: bytes) -> None:
        path = self.worker.scratch / f".{name}.arrow"
        await asyncio.to_thread(path.write_bytes, arrow)
        reply = await self._exchange({"kind": "inject", "name": name, "path": str(path)})
        await asyncio.to_thread(path.unlink)
        if error := text(reply, "error_name", 200):
            raise DependencyFailed("sandbox worker", f"{name} was not injected: {error}")

    async def variables(self) -> tuple[Variable, ...]:
        """The session's variables, sorted by name."""
        async with self._lock:
            self._check()
            return as_variables(await self._exchange({"kind": "variables"}), "variables")

    async def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(INJECT_S):
                return await self._ask(request, secrets.token_hex(8))
        except (TimeoutError, BadFrame, asyncio.IncompleteReadError, OSError) as error:
            await self.worker.end()
            self.lost = ended(self.worker.returncode)
            raise SessionLost(self.id, self.lost) from error

    async def interrupt(self) -> bool:
        """Stops the running cell; False when there is none."""
        cell = self._running
        if cell is None:
            return False
        await self._break(cell, Status.INTERRUPTED, "interrupted by the caller")
        return True

    async def restart(self, worker: WorkerProcess) -> list[str]:
        """Goes on with a new worker that has the frames and nothing else."""
        async with self._lock:
            await self.worker.end() if not self.lost else None
            self.worker, self.lost, self.cells = worker, "", 0
            self._records.clear()
            for name, arrow in self.frames.items():
                await self._inject(name, arrow)
            return list(self.frames)

    async def close(self) -> None:
        if not self.lost:
            self.lost = "the session was closed"
            await self.worker.end()


def ended(returncode: int | None) -> str:
    """Why a worker is gone, in words."""
    if returncode is None:
        return "the worker was ended"
    if returncode < 0:
        name = signal.Signals(-returncode).name
        hint = " (by itself, or by the kernel for memory)" if name == "SIGKILL" else ""
        return f"the worker was ended by {name}{hint}"
    return f"the worker exited with status {returncode}"


def as_variables(reply: dict[str, Any], name: str) -> tuple[Variable, ...]:
    return tuple(
        Variable(text(item, "name", 200), text(item, "type", 200), text(item, "shape", 200))
        for item in items(reply, name, VARIABLES)
    )


def displays(reply: dict[str, Any]) -> list[Display]:
    """Displays of allowed types with valid data; anything else that the worker claims is dropped."""
    found = []
    for item in items(reply, "displays", DISPLAYS):
        kind = text(item, "media_type", 100)
        try:
            data = base64.b64decode(text(item, "data", 16 * 1024 * 1024), validate=True)
        except binascii.Error:
            continue
        if kind in MEDIA_TYPES:
            found.append(Display(kind, data))
    return found
