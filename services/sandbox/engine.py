"""The pool of sessions: admission, spare workers, frames and files, reaping."""

from __future__ import annotations

import asyncio
import builtins
import keyword
import time
import unicodedata
from collections.abc import Awaitable
from typing import Any

from fathom import frames
from fathom.errors import CorruptData, FathomError, InvalidField, NotFound, Overloaded, PayloadTooLarge
from fathom.ids import new_id
from services.sandbox.config import Config
from services.sandbox.files import File, list_files, read_file, write_file
from services.sandbox.process import WorkerProcess
from services.sandbox.procfs import Census
from services.sandbox.session import Session

RESERVED = frozenset({"pd", "np", "to_date", "In", "Out", "exit", "quit", "get_ipython", "display", *dir(builtins)})
MAX_CODE_BYTES = 262_144
MAX_DESCRIPTION = 1_000
RETRY_S = 1.0
LAYERS = (
    "process",
    "rlimits",
    "watch on memory, CPU time and processes",
    "clean environment",
    "scratch folder",
)
MISSING = (
    "own user: the sandbox issue builds the jail",
    "namespaces: the sandbox issue builds the jail",
    "landlock: the sandbox issue builds the jail",
    "seccomp: the sandbox issue builds the jail",
    "scratch quota: the sandbox issue builds the jail",
)


class IsolationTooWeak(FathomError):
    """The achieved isolation is below ``min_isolation``; the service does not start."""

    code, reason = "FAILED_PRECONDITION", "INVALID_FIELD"


class Engine:
    """Sessions by id."""

    def __init__(self, config: Config, log: Any) -> None:
        self._config, self._log = config, log
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._spares: list[WorkerProcess] = []
        self._census = Census()
        self._refill: asyncio.Task[None] | None = None
        self._reaper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Checks the isolation and gets the spare workers ready."""
        if self._config.min_isolation != "none":
            raise IsolationTooWeak(
                f"sandbox.min_isolation is {self._config.min_isolation}, but only 'none' (a process with rlimits) is"
                f" built; missing: {'; '.join(MISSING)}",
                metadata={"field": "sandbox.min_isolation"},
            )
        self._log.warning("sandbox isolation", level="none", layers=LAYERS, missing=MISSING)
        await self._fill()
        self._reaper = asyncio.create_task(self._reap())

    async def _fill(self) -> None:
        while len(self._spares) < self._config.spares:
            worker = WorkerProcess(self._config)
            await worker.start()
            self._spares.append(worker)

    async def _refilled(self) -> None:
        """A spare that does not start is no one's error: the next session starts its worker itself."""
        try:
            await self._fill()
        except FathomError as error:
            self._log.error("no spare worker", error=error.message)

    async def _worker(self) -> WorkerProcess:
        """A spare that still lives, or a new one; the spares are refilled behind the caller's back."""
        worker = None
        while self._spares and worker is None:
            spare = self._spares.pop()
            if spare.exited.is_set():
                await spare.end()
            else:
                worker = spare
        if worker is None:
            worker = WorkerProcess(self._config)
            await worker.start()
        if self._refill is None or self._refill.done():
            self._refill = asyncio.create_task(self._refilled())
        return worker

    async def create(
        self, cell_wall_ms: int, memory_bytes: int, output_bytes: int, cells: int, cpu_ms: int = 0
    ) -> Session:
        """A new session; zero means the service's own limit, and no limit can be widened.

        Raises ``Overloaded`` when all slots are taken, ``InvalidField("limits.…")`` for a negative limit.
        """
        wanted = {
            "cell_wall_ms": cell_wall_ms,
            "memory_bytes": memory_bytes,
            "output_bytes": output_bytes,
            "cells": cells,
            "cpu_ms": cpu_ms,
        }
        for name, value in wanted.items():
            if value < 0:
                raise InvalidField(f"limits.{name}", "must not be negative")
        if len(self._sessions) + self._opening >= self._config.max_sessions:
            raise Overloaded(f"all {self._config.max_sessions} sandbox sessions are in use", retry_after_s=RETRY_S)
        tighter = {name: min(value, getattr(self._config, name)) for name, value in wanted.items() if value}
        self._opening += 1
        try:
            limits = self._config.model_copy(update=tighter)
            session = Session(new_id("session"), limits, await self._worker(), self._census)
        finally:
            self._opening -= 1
        self._sessions[session.id] = session
        return session

    def session(self, session_id: str) -> Session:
        """Raises ``NotFound`` for an unknown or closed session."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFound("session", session_id)
        return session

    async def put_frame(self, session_id: str, name: str, arrow: bytes, description: str = "") -> tuple[str, int]:
        """Injects an Arrow IPC stream as a variable; gives its digest and its number of rows.

        Raises ``NotFound``, ``SessionLost``, ``PayloadTooLarge``, and ``InvalidField`` for a bad name,
        a long description, bytes that are no Arrow stream, or a frame of too many cells.
        """
        session = self.session(session_id)
        checked_name(name)
        if len(description) > MAX_DESCRIPTION:
            raise InvalidField("description", f"must have at most {MAX_DESCRIPTION:,} characters")
        if len(arrow) > self._config.frames_bytes:
            raise PayloadTooLarge(len(arrow), self._config.frames_bytes)
        digest, rows = await asyncio.to_thread(read_frame, name, arrow, self._config.frame_cells)
        await session.inject(name, arrow)
        return (f"{description}\n{digest}" if description else digest), rows

    async def restart(self, session_id: str) -> list[str]:
        """Names of the frames that the new worker has."""
        session = self.session(session_id)
        worker = await self._worker()
        try:
            return await session.restart(worker)
        finally:
            if session.worker is not worker:  # the session was closed, or the caller went away
                await worker.end()

    async def close_session(self, session_id: str) -> None:
        """Ends the session's worker; raises ``NotFound``."""
        session = self.session(session_id)
        del self._sessions[session_id]
        await session.close()

    async def put_file(self, session_id: str, path: str, content: bytes) -> int:
        """Writes a file into the scratch folder; gives its size in bytes."""
        return await asyncio.to_thread(write_file, self._root(session_id), path, content)

    async def get_file(self, session_id: str, path: str) -> bytes:
        """Content of a file of the scratch folder."""
        return await asyncio.to_thread(read_file, self._root(session_id), path)

    async def files(self, session_id: str) -> list[File]:
        """The scratch folder's files, sorted by path."""
        return await asyncio.to_thread(list_files, self._root(session_id))

    def _root(self, session_id: str) -> str:
        session = self.session(session_id)
        session.check_alive()
        return str(session.worker.scratch)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(5.0, self._config.idle_s / 4))
            now = time.monotonic()
            for session in list(self._sessions.values()):
                idle = now - session.used > self._config.idle_s
                if (idle or now - session.opened > self._config.lifetime_s) and not session.busy:
                    self._log.info("session reaped", session_id=session.id, why="idle" if idle else "lifetime")
                    self._sessions.pop(session.id, None)
                    await session.close()

    async def close(self) -> None:
        """Ends every worker."""
        for task in (self._reaper, self._refill):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        endings: list[Awaitable[None]] = [session.close() for session in self._sessions.values()]
        endings += [worker.end() for worker in self._spares]
        self._sessions.clear()
        self._spares.clear()
        await asyncio.gather(*endings)


def read_frame(name: str, arrow: bytes, max_cells: int) -> tuple[str, int]:
    """Digest and rows of an Arrow stream; raises ``InvalidField("data")``. Computed here, not by the worker."""
    try:
        table = frames.read_table(arrow, name)
    except CorruptData as error:
        raise InvalidField("data", error.message) from error
    # A column of nulls takes no bytes, however long it is: bytes alone are no bound.
    if table.num_rows * max(1, table.num_columns) > max_cells:
        raise InvalidField("data", f"has more than {max_cells:,} cells")
    return frames.digest(frames.to_frame(table), name), int(table.num_rows)


def checked_code(code: str) -> str:
    """Raises ``InvalidField("code")`` when there is none or too much."""
    if not 1 <= len(code.encode()) <= MAX_CODE_BYTES:
        raise InvalidField("code", f"must be 1 to {MAX_CODE_BYTES:,} bytes")
    return code


def checked_name(name: str) -> str:
    """A name that a frame may have; raises ``InvalidField("name")``."""
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    if not plain or keyword.iskeyword(name) or name.startswith("_") or len(name) > 64:
        raise InvalidField("name", f"{name[:80]!r} is no plain identifier of at most 64 characters")
    if name in RESERVED:
        raise InvalidField("name", f"{name!r} is taken by Python or by the session itself")
    return name
