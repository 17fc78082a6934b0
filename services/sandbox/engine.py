"""The pool of sessions: admission, spare workers, idle reaping, files."""

from __future__ import annotations

import asyncio
import keyword
import os
import stat
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from fathom.errors import FathomError, InvalidField, NotFound, Overloaded
from fathom.ids import new_id
from services.sandbox.config import Config
from services.sandbox.process import WorkerProcess
from services.sandbox.session import Session

RESERVED = frozenset({"pd", "np", "to_date", "In", "Out", "exit", "quit", "get_ipython", "display"})
MAX_CODE_BYTES = 262_144
MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_FILES = 200
LAYERS = ("process", "rlimits", "memory watchdog", "clean environment", "scratch folder")
MISSING = (
    "namespaces: the sandbox issue builds the jail",
    "landlock: the sandbox issue builds the jail",
    "seccomp: the sandbox issue builds the jail",
)


class IsolationTooWeak(FathomError):
    """The achieved isolation is below ``min_isolation``; the service does not start."""

    code, reason = "FAILED_PRECONDITION", "INVALID_FIELD"


@dataclass
class File:
    """A file of a session's scratch folder."""

    path: str
    size_bytes: int


class Engine:
    """Sessions by id."""

    def __init__(self, config: Config, log: Any) -> None:
        self._config, self._log = config, log
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._spares: list[WorkerProcess] = []
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
            self._refill = asyncio.create_task(self._fill())
        return worker

    async def create(self, cell_wall_ms: int, memory_bytes: int, output_bytes: int, cells: int) -> Session:
        """A new session; zero means the service's own limit. Raises ``Overloaded`` when all slots are taken."""
        if len(self._sessions) + self._opening >= self._config.max_sessions:
            raise Overloaded(f"all {self._config.max_sessions} sandbox sessions are in use", retry_after_s=1.0)
        wanted = {
            "cell_wall_ms": cell_wall_ms,
            "memory_bytes": memory_bytes,
            "output_bytes": output_bytes,
            "cells": cells,
        }
        tighter = {name: min(value, getattr(self._config, name)) for name, value in wanted.items() if value > 0}
        self._opening += 1
        try:
            session = Session(new_id("session"), self._config.model_copy(update=tighter), await self._worker())
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

    async def restart(self, session_id: str) -> list[str]:
        """Names of the frames that the new worker has."""
        session = self.session(session_id)
        return await session.restart(await self._worker())

    async def close_session(self, session_id: str) -> None:
        session = self.session(session_id)
        del self._sessions[session_id]
        await session.close()

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(5.0, self._config.idle_s / 4))
            now = time.monotonic()
            for session in list(self._sessions.values()):
                if now - session.used > self._config.idle_s:
                    self._log.info("session was idle", session_id=session.id)
                    await self.close_session(session.id)

    async def close(self) -> None:
        """Ends every worker."""
        for task in (self._reaper, self._refill):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        endings: list[Awaitable[None]] = [session.close() for session in self._sessions.values()]
        endings += [worker.end() for worker in self._spares]
        await asyncio.gather(*endings)
        self._sessions.clear()
        self._spares.clear()


def checked_code(code: str) -> str:
    """Raises ``InvalidField("code")`` when there is none or too much."""
    if not 1 <= len(code.encode()) <= MAX_CODE_BYTES:
        raise InvalidField("code", f"must be 1 to {MAX_CODE_BYTES:,} bytes")
    return code


def checked_name(name: str) -> str:
    """A name that a frame may have; raises ``InvalidField("name")``."""
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or len(name) > 64:
        raise InvalidField("name", f"{name!r} is no plain identifier of at most 64 characters")
    if name in RESERVED:
        raise InvalidField("name", f"{name!r} is taken by the session itself")
    return name


def checked_path(path: str) -> PurePosixPath:
    """A relative path without dots, of at most 8 parts; raises ``InvalidField("path")``."""
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or not 1 <= len(parts) <= 8 or any(part in ("..", ".") for part in parts):
        raise InvalidField("path", "must be relative, without '..', of at most 8 parts")
    if any(ord(character) < 32 for character in path) or len(path) > 512:
        raise InvalidField("path", "must have at most 512 printable characters")
    return PurePosixPath(path)


def open_beneath(root: str, path: PurePosixPath, flags: int) -> int:
    """Opens ``path`` below ``root`` part by part, following no symbolic link: the folder belongs to hostile code."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=folder)
    except OSError as error:
        raise NotFound("file", str(path)) from error
    finally:
        os.close(folder)


def read_file(root: str, path: str) -> bytes:
    """Content of a regular file; raises ``NotFound`` or ``InvalidField("path")``."""
    with os.fdopen(open_beneath(root, checked_path(path), os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > MAX_FILE_BYTES:
            raise InvalidField("path", f"{path!r} is no single regular file of at most {MAX_FILE_BYTES:,} bytes")
        return file.read(MAX_FILE_BYTES)


def write_file(root: str, path: str, content: bytes) -> int:
    """Writes a regular file at the top of the scratch folder or in a folder that is there; gives its size."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(open_beneath(root, checked_path(path), flags), "wb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidField("path", f"{path!r} is no regular file")
        return file.write(content)


def list_files(root: str) -> list[File]:
    """Regular files of the scratch folder, sorted, links not followed, at most 200."""
    found: list[File] = []
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = [name for name in names if not name.startswith(".")]
        for name in sorted(files):
            status = os.lstat(os.path.join(folder, name))
            if stat.S_ISREG(status.st_mode) and not name.startswith("."):
                found.append(File(os.path.relpath(os.path.join(folder, name), root), status.st_size))
            if len(found) == MAX_FILES:
                return found
    return sorted(found, key=lambda file: file.path)
