"""Supervisor's client of the fork server, a warm process that is replaced from time to time, or when it dies."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import fathom
from fathom.core.errors import DependencyFailed
from fathom.services.sandbox.ipc import programs
from fathom.services.sandbox.ipc.plan import HOME, SessionPlan, build_home_variables

ROOT = Path(fathom.__file__).resolve().parents[1]
# Two seconds: the fork server reads a request within milliseconds unless it hangs.
SEND_TRIES, SEND_PAUSE_S = 200, 0.01


def build_environment() -> dict[str, str]:
    """Return the environment of the fork server, which cells can read: nothing in it is the service's own."""
    # A process with more than one thread could not be forked.
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")}
    return {
        "PATH": "/usr/bin:/bin",
        **build_home_variables(HOME),
        "PLOTLY_RENDERER": "plotly_mimetype",
        "MPLBACKEND": "agg",
        # Arrow's allocator would start a thread of its own as well.
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        **single,
    }


class ForkServerProcess:
    """Handle to one fork server process."""

    def __init__(self) -> None:
        self.forks, self.started_at = 0, time.monotonic()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None and self._control is not None

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, timeout_s: float) -> None:
        """Start the process and wait for its imports; raise ``DependencyFailed``, and leave no process then."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._control = ours
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", programs.FORK_SERVER, str(theirs.fileno()), str(ROOT), str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                env=build_environment(), cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        try:
            async with asyncio.timeout(timeout_s):
                ready = await asyncio.get_running_loop().sock_recv(ours, 4096)
        except (TimeoutError, OSError):
            ready = b""
        except BaseException:  # cancellation included: no process may be left without an owner
            await self.kill()
            raise
        report = json.loads(ready or b"{}")
        # A fork copies one thread only, but also the locks that others hold at that moment.
        if report.get("threads") != 1:
            reason = f"it has {report['threads']} threads" if report else await self._last_words()
            await self.kill()
            raise DependencyFailed("sandbox fork server", reason)

    async def _last_words(self) -> str:
        assert self._process is not None
        await self.kill()
        assert self._process.stderr is not None
        return (await self._process.stderr.read(4096)).decode(errors="replace").strip()[-400:] or "did not start"

    async def fork(self, plan: SessionPlan, descriptors: list[int]) -> None:
        """Send a plan with four descriptors, which the caller closes afterwards; raise ``DependencyFailed``."""
        self.forks += 1
        for _ in range(SEND_TRIES):
            if not self.is_alive:
                break
            assert self._control is not None
            try:
                socket.send_fds(self._control, [plan.to_bytes()], descriptors)
                return
            except BlockingIOError:
                await asyncio.sleep(SEND_PAUSE_S)
            except OSError:
                break
        raise DependencyFailed("sandbox fork server", "does not take requests")

    def retire(self) -> None:
        """Close the control socket; the process ends by itself after its last session."""
        if self._control is not None:
            self._control.close()
            self._control = None

    async def kill(self) -> None:
        """Kill the process at once; sessions that it has started live on."""
        self.retire()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._process is not None:
            await self._process.wait()

    async def wait(self, timeout_s: float) -> None:
        """Wait for the end of a retired process; kill it after ``timeout_s`` seconds."""
        assert self._process is not None
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            await self.kill()


class ForkServerClient:
    """Client that always has a living fork server.

    The process is replaced after ``max_forks`` sessions or ``max_age_s`` seconds, since its children share their
    address layout and hash seed.
    """

    def __init__(self, log: Any, *, timeout_s: float, max_forks: int, max_age_s: float) -> None:
        self._log, self._timeout_s = log, timeout_s
        self._max_forks, self._max_age_s = max_forks, max_age_s
        self._current: ForkServerProcess | None = None
        self._retired: list[ForkServerProcess] = []
        self._starting: asyncio.Task[ForkServerProcess] | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the first process; raise ``DependencyFailed``."""
        self._current = await self._new()

    async def _new(self) -> ForkServerProcess:
        process = ForkServerProcess()
        await process.start(self._timeout_s)
        return process

    @property
    def pid(self) -> int:
        """Process id of the current fork server."""
        assert self._current is not None
        return self._current.pid

    async def fork(self, plan: SessionPlan, descriptors: list[int]) -> None:
        """Start one session, on a new fork server if the current one is gone; raise ``DependencyFailed``."""
        process = await self._get_living()
        try:
            await process.fork(plan, descriptors)
        except DependencyFailed:
            # One that takes no requests is hung; its sessions live on, and this one gets another.
            await process.kill()
            process = await self._get_living()
            await process.fork(plan, descriptors)

    async def _get_living(self) -> ForkServerProcess:
        if self._closed:
            raise DependencyFailed("sandbox fork server", "is closed")
        current = self._current
        if current is not None and current.is_alive:
            # The worn one goes on until its successor is ready: nobody waits for the imports.
            if self._is_worn(current) and self._starting is None:
                self._starting = asyncio.create_task(self._renew())
            return current
        if self._starting is None:
            self._starting = asyncio.create_task(self._renew())
        return await asyncio.shield(self._starting)

    def _is_worn(self, process: ForkServerProcess) -> bool:
        return process.forks >= self._max_forks or time.monotonic() - process.started_at > self._max_age_s

    async def _renew(self) -> ForkServerProcess:
        try:
            fresh, old = await self._new(), self._current
            self._current = fresh
            if old is not None:
                old.retire()
                self._retired = [process for process in self._retired if not process.has_ended]
                self._retired.append(old)
            self._log.info("sandbox fork server renewed", pid=fresh.pid)
            return fresh
        finally:
            self._starting = None

    async def close(self) -> None:
        """End every fork server; to be called when all sessions have ended."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        processes = [*self._retired, *([self._current] if self._current else [])]
        for process in processes:
            process.retire()
        await asyncio.gather(*(process.wait(2.0) for process in processes))
