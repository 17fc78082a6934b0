"""The supervisor's side of the fork server: a warm process that is replaced from time to time, or when it dies."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from fathom.errors import DependencyFailed
from services.sandbox.jail.plan import HOME, Plan, home_variables
from services.sandbox.zygote import BOOT

ROOT = Path(__file__).resolve().parents[2]
SEND_TRIES, SEND_PAUSE_S = 200, 0.01


def environ() -> dict[str, str]:
    """Nothing of ours: a cell can read its environment. One thread everywhere, or nothing could be forked."""
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")}
    return {
        "PATH": "/usr/bin:/bin",
        **home_variables(HOME),
        "PLOTLY_RENDERER": "plotly_mimetype",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        **single,
    }


class Zygote:
    """One fork server process."""

    def __init__(self) -> None:
        self.forks, self.born = 0, time.monotonic()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None and self._control is not None

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, timeout_s: float) -> None:
        """Returns when all imports are done; raises ``DependencyFailed``, and leaves nothing then."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._control = ours
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-c", BOOT, str(theirs.fileno()), str(ROOT), str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                env=environ(), cwd="/", pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        try:
            async with asyncio.timeout(timeout_s):
                ready = await asyncio.get_running_loop().sock_recv(ours, 4096)
        except (TimeoutError, OSError):
            ready = b""
        except BaseException:
            await self.kill()
            raise
        report = json.loads(ready or b"{}")
        if report.get("threads") != 1:
            reason = f"it has {report['threads']} threads" if report else await self._last_words()
            await self.kill()
            raise DependencyFailed("sandbox fork server", reason)

    async def _last_words(self) -> str:
        assert self._process is not None
        await self.kill()
        assert self._process.stderr is not None
        return (await self._process.stderr.read(4096)).decode(errors="replace").strip()[-400:] or "did not start"

    async def fork(self, plan: Plan, descriptors: list[int]) -> None:
        """Hands over a plan with four descriptors, which the caller then closes. Raises ``DependencyFailed``."""
        self.forks += 1
        for _ in range(SEND_TRIES):
            if not self.alive:
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
        """It ends by itself when its last session has ended."""
        if self._control is not None:
            self._control.close()
            self._control = None

    async def kill(self) -> None:
        """Ends it at once; sessions that it has started live on."""
        self.retire()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._process is not None:
            await self._process.wait()

    async def wait(self, timeout_s: float) -> None:
        """Waits for the end of one that has been retired; kills it when that takes too long."""
        assert self._process is not None
        try:
            await asyncio.wait_for(self._process.wait(), timeout_s)
        except TimeoutError:
            await self.kill()


class ForkServer:
    """Always a living fork server. It is renewed after ``max_forks`` or ``max_age_s``, since its children share
    their address layout and hash seed."""

    def __init__(self, log: Any, *, timeout_s: float, max_forks: int, max_age_s: float) -> None:
        self._log, self._timeout_s = log, timeout_s
        self._max_forks, self._max_age_s = max_forks, max_age_s
        self._current: Zygote | None = None
        self._retired: list[Zygote] = []
        self._starting: asyncio.Task[Zygote] | None = None
        self._closed = False

    async def start(self) -> None:
        """Raises ``DependencyFailed``."""
        self._current = await self._new()

    async def _new(self) -> Zygote:
        zygote = Zygote()
        await zygote.start(self._timeout_s)
        return zygote

    @property
    def pid(self) -> int:
        """Process id of the present one."""
        assert self._current is not None
        return self._current.pid

    async def fork(self, plan: Plan, descriptors: list[int]) -> None:
        """One session; tries a new fork server once when the present one is gone. Raises ``DependencyFailed``."""
        zygote = await self._living()
        try:
            await zygote.fork(plan, descriptors)
        except DependencyFailed:
            await zygote.kill()
            zygote = await self._living()
            await zygote.fork(plan, descriptors)

    async def _living(self) -> Zygote:
        if self._closed:
            raise DependencyFailed("sandbox fork server", "is closed")
        current = self._current
        if current is not None and current.alive:
            if self._worn(current) and self._starting is None:
                self._starting = asyncio.create_task(self._renew())
            return current
        if self._starting is None:
            self._starting = asyncio.create_task(self._renew())
        return await asyncio.shield(self._starting)

    def _worn(self, zygote: Zygote) -> bool:
        return zygote.forks >= self._max_forks or time.monotonic() - zygote.born > self._max_age_s

    async def _renew(self) -> Zygote:
        try:
            fresh, old = await self._new(), self._current
            self._current = fresh
            if old is not None:
                old.retire()
                self._retired = [zygote for zygote in self._retired if not zygote.ended]
                self._retired.append(old)
            self._log.info("sandbox fork server renewed", pid=fresh.pid)
            return fresh
        finally:
            self._starting = None

    async def close(self) -> None:
        """Ends every fork server; to be called when all sessions have ended."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        zygotes = [*self._retired, *([self._current] if self._current else [])]
        for zygote in zygotes:
            zygote.retire()
        await asyncio.gather(*(zygote.wait(2.0) for zygote in zygotes))
