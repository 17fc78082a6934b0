"""One running cell, which the supervisor watches, stops and judges from outside the worker."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from services.sandbox import claims, procfs
from services.sandbox.claims import Done
from services.sandbox.config import Config
from services.sandbox.events import Display, Event, Outcome, Output, Status
from services.sandbox.output import Transcript
from services.sandbox.pipe import discard
from services.sandbox.process import WorkerProcess
from services.sandbox.wire import BadFrame

WATCH_S = 0.1
FIRST_WATCH_S = 0.02
LAST_WORDS_S = 0.5
DISPLAYS, DISPLAY_BYTES = 20, 8 * 1024 * 1024
FRAMES = 1_000


class Cell:
    """One run of code in a worker.

    Status, time, memory and cause are measured here; everything else is what the worker claims.
    """

    def __init__(
        self, worker: WorkerProcess, config: Config, census: procfs.Census, number: int, emit: Callable[[Event], None]
    ) -> None:
        self._worker, self._config, self._census, self._number, self._emit = worker, config, census, number, emit
        self._nonce = secrets.token_hex(16)
        self._transcript = Transcript(config.output_bytes)
        self._displays, self._display_bytes = 0, 0
        self._peak, self._oom_kills = 0, 0
        self._status: Status | None = None
        self._cause = ""
        self._guards: set[asyncio.Task[None]] = set()
        self.finished = asyncio.Event()

    async def run(self, code: str, wall_s: float) -> Outcome:
        """Run the code and return its outcome, at the latest a grace period after ``wall_s`` seconds."""
        started, self._oom_kills = time.monotonic(), self._worker.oom_kills
        procfs.reset_peak(self._worker.pid)
        pipes = (self._worker.stdout, self._worker.stderr)
        for pipe in pipes:
            pipe.sink = self._output
        answer = asyncio.create_task(self._ask(code))
        try:
            self._guard(self._limit(wall_s))
            self._guard(self._watch(started))
            await self._until_ended(answer)
            done = await self._read(answer)
            for pipe in pipes:
                pipe.drain()
            for piece in self._transcript.finish():
                self._emit(piece)
            self._peak = max(self._peak, procfs.peak_bytes(self._worker.pid))
            return self._outcome(done, started)
        finally:
            for pipe in pipes:
                pipe.sink = discard
            for task in (answer, *self._guards):
                task.cancel()
            await asyncio.gather(answer, *self._guards, return_exceptions=True)
            self.finished.set()

    def stop(self, status: Status, cause: str, *, kill: bool = False) -> None:
        """End the cell, by an interrupt first unless ``kill``; the status and cause of the first call are reported."""
        if self._status is None:
            self._status, self._cause = status, cause
        if kill:
            self._worker.kill()
        else:
            self._worker.interrupt()
            self._guard(self._kill_later())

    def _guard(self, duty: Coroutine[Any, Any, None]) -> None:
        self._guards.add(asyncio.create_task(duty))

    async def _until_ended(self, answer: asyncio.Task[Done]) -> None:
        """Wait for the answer or for the worker's end; raise the error of a guard that fails."""
        ended = asyncio.create_task(self._worker.exited.wait())
        try:
            while not (answer.done() or ended.done()):
                await asyncio.wait({answer, ended, *self._guards}, return_when=asyncio.FIRST_COMPLETED)
                for guard in [guard for guard in self._guards if guard.done()]:
                    self._guards.discard(guard)
                    guard.result()
        finally:
            ended.cancel()

    async def _ask(self, code: str) -> Done:
        """Send the cell and read frames up to its end, skipping those of other cells.

        Raise ``BadFrame`` for a wrong frame, and for more than ``FRAMES``.
        """
        await self._worker.send({"kind": "execute", "nonce": self._nonce, "cell": self._number, "code": code})
        for _ in range(FRAMES):
            frame = await self._worker.receive()
            if frame.get("nonce") != self._nonce:
                continue
            if frame.get("kind") == "done":
                return claims.done(frame)
            if frame.get("kind") != "display":
                raise BadFrame("a frame of an unknown kind")
            self._show(await asyncio.to_thread(claims.display, frame))
        raise BadFrame(f"more than {FRAMES:,} frames")

    def _show(self, display: Display | None) -> None:
        """Emit a display after the output printed before it; raise ``BadFrame`` for more than a cell may have."""
        if display is None:
            return
        self._displays += 1
        self._display_bytes += len(display.data)
        if self._displays > DISPLAYS or self._display_bytes > DISPLAY_BYTES:
            raise BadFrame("more displays than a cell may have")
        for pipe in (self._worker.stdout, self._worker.stderr):
            pipe.drain()
        self._emit(display)

    def _output(self, stream: str, data: bytes) -> None:
        text = self._transcript.take(stream, data)
        if text:
            self._emit(Output(stream, text))
        if self._transcript.seen > self._config.flood_bytes and self._status is None:
            cause = f"more than {self._config.flood_bytes:,} bytes of output"
            self.stop(Status.OUTPUT_LIMIT, cause, kill=True)

    async def _limit(self, wall_s: float) -> None:
        await asyncio.sleep(wall_s)
        self.stop(Status.TIMEOUT, f"the cell ran longer than {wall_s:g} s")

    async def _kill_later(self) -> None:
        await asyncio.sleep(self._config.interrupt_grace_s)
        self._worker.kill()

    async def _watch(self, started: float) -> None:
        """End the worker when its session has too much memory, CPU time or too many processes."""
        config = self._config
        # A short cell is over before /proc has been read once; what it may do until then, the kernel bounds.
        await asyncio.sleep(FIRST_WATCH_S)
        while True:
            usage = await self._census.usage(self._worker.init_pid, started)
            memory, cpu_s = usage.resident_bytes, usage.cpu_s
            if memory > config.memory_bytes:
                # Forked children share most pages with their parent, and all with the fork server: counted in
                # parts, or nothing could be forked.
                memory = await asyncio.to_thread(procfs.proportional_bytes, usage.pids)
            self._peak = max(self._peak, memory)
            if memory > config.memory_bytes:
                self.stop(Status.OOM, f"{memory:,} bytes are over {config.memory_bytes:,}", kill=True)
            elif self._worker.oom_kills > self._oom_kills:
                # The kernel has taken one process of the session; the others go with it.
                self.stop(Status.OOM, over_memory(config.memory_bytes), kill=True)
            elif cpu_s * 1000 > config.cpu_ms:
                self.stop(Status.TIMEOUT, f"the session used more than {config.cpu_ms / 1000:g} s of CPU", kill=True)
            elif len(usage.pids) > config.processes:
                self.stop(Status.KILLED, f"more than {config.processes} processes", kill=True)
            await asyncio.sleep(WATCH_S)

    async def _read(self, answer: asyncio.Task[Done]) -> Done | None:
        """Return the worker's claims, or None when it is gone; end a worker that breaks the protocol."""
        await asyncio.wait({answer}, timeout=LAST_WORDS_S)
        if answer.done():
            try:
                return answer.result()
            except BadFrame as error:
                self.stop(Status.KILLED, f"the worker broke the protocol: {error}", kill=True)
            except (asyncio.IncompleteReadError, OSError):
                # Its end follows at once, unless it has closed its socket only; then it is of no use and goes.
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS_S):
                        await self._worker.exited.wait()
        self._worker.kill()
        await self._worker.exited.wait()
        return None

    def _outcome(self, done: Done | None, started: float) -> Outcome:
        """Return the outcome: facts measured outside first, completed by the worker's claims."""
        claimed = done or Done()
        status, cause = self._status, self._cause
        if status is None and done is not None:
            status = Status.ERROR if done.error_name else Status.OK
        elif status is None and self._worker.oom_kills > self._oom_kills:
            status, cause = Status.OOM, over_memory(self._config.memory_bytes)
        elif status is None:
            status, cause = death(self._worker.returncode)
        return Outcome(
            status,
            claimed.result,
            claimed.traceback,
            claimed.error_name,
            claimed.error_value,
            claimed.variables,
            int((time.monotonic() - started) * 1000),
            self._peak,
            self._transcript.dropped,
            self._number,
            done is None,
            cause,
        )


def over_memory(limit: int) -> str:
    return f"the kernel ended it: its memory is over {limit:,} bytes"


def death(returncode: int | None) -> tuple[Status, str]:
    """Return status and cause for a worker that ended without being stopped."""
    if returncode == -signal.SIGXCPU:
        return Status.TIMEOUT, "the worker used up its CPU time"
    return Status.KILLED, ended(returncode)


def ended(returncode: int | None) -> str:
    """Return in words why a worker is gone."""
    if returncode is None:
        return "the worker was ended"
    if returncode < 0:
        return f"the worker was ended by {signal_name(-returncode)}"
    return f"the worker exited with status {returncode}"


def signal_name(number: int) -> str:
    """Return a signal's name, "SIGKILL" for 9; real-time signals have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
