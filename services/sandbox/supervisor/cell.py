"""One running cell, which the supervisor watches, stops and judges from outside the worker."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from fathom.services.sandbox.config import Config
from fathom.services.sandbox.ipc.frames import MAX_DISPLAY_BYTES, MAX_DISPLAYS, BadFrame, FrameKind
from fathom.services.sandbox.supervisor.events import Display, Event, Outcome, Output, Status
from fathom.services.sandbox.supervisor.host import procfs
from fathom.services.sandbox.supervisor.host.resting import is_resting
from fathom.services.sandbox.supervisor.output import OutputBudget
from fathom.services.sandbox.supervisor.worker import reports
from fathom.services.sandbox.supervisor.worker.pipe import discard
from fathom.services.sandbox.supervisor.worker.process import WorkerProcess
from fathom.services.sandbox.supervisor.worker.reports import WorkerResult

# Interval of the watch: short enough to catch growth, long enough that reading /proc costs little.
WATCH_S = 0.1
# Earlier than the interval, because a fork bomb or a large allocation needs only milliseconds.
FIRST_WATCH_S = 0.02
# Most cells are over before they have used as much; one that waits gives way by then.
LONG_CELL_CPU_S, LONG_CELL_S = 0.01, 1.0
# From then on, until it goes on in turns while other cells begin.
FREE_TURN_S = 0.1
# After its answer a worker takes microseconds to wait again.
FIRST_REST_S = 0.0005
# The loop, which all share, is not to be busy with one session that displays much: each large display waits longer than
# the one before, the first not at all. The most that a cell may have take four tenths of a second.
LARGE_DISPLAY_BYTES, DISPLAY_PAUSE_S = 65_536, 0.002
# A worker that has ended may still have its answer in the socket's buffer.
ANSWER_GRACE_S = 0.5


class Cell:
    """One run of code in a worker.

    Status, time, memory and cause are measured here; everything else is what the worker claims.
    """

    def __init__(
        self,
        worker: WorkerProcess,
        config: Config,
        usage_reader: procfs.UsageReader,
        number: int,
        emit: Callable[[Event], None],
    ) -> None:
        self._worker, self._config, self._usage_reader, self._number, self._emit = (
            worker,
            config,
            usage_reader,
            number,
            emit,
        )
        # Nothing that ran before can know it, so that no earlier cell can have written this one's answer.
        self._nonce = secrets.token_hex(16)
        self._output_budget = OutputBudget(config.output_bytes)
        self._displays, self._display_bytes = 0, 0
        self._peak, self._oom_kills = 0, 0
        self._status: Status | None = None
        self._cause = ""
        self._is_killed = False
        self.is_forged = False
        """True when the worker broke the protocol, which no code does that means no harm."""
        self._guards: set[asyncio.Task[None]] = set()
        self.finished = asyncio.Event()

    async def run(self, code: str, wall_s: float) -> Outcome:
        """Run the code and return its outcome, at the latest a grace period after ``wall_s`` seconds."""
        started, self._oom_kills = time.monotonic(), self._worker.oom_kills
        # The kernel keeps the highest value since the start: an earlier cell's peak is not this one's.
        procfs.reset_peak(self._worker.pid)
        pipes = (self._worker.stdout, self._worker.stderr)
        for pipe in pipes:
            # What was written between two cells belongs to neither.
            pipe.drain()
            pipe.sink = self._take_output
        self._worker.precedence.begin()
        answer = asyncio.create_task(self._ask(code))
        try:
            self._guard(self._stop_when_late(wall_s))
            self._guard(self._watch(started))
            self._guard(self._give_way_later())
            await self._until_ended(answer)
            done = await self._read(answer)
            await self._until_resting()
            # The answer comes by another way than the output and may have overtaken the last of it.
            for pipe in pipes:
                pipe.drain()
            for piece in self._output_budget.finish():
                self._emit(piece)
            self._peak = max(self._peak, procfs.read_peak_bytes(self._worker.pid))
            return self._build_outcome(done, started)
        finally:
            for pipe in pipes:
                pipe.sink = discard
            for task in (answer, *self._guards):
                task.cancel()
            await asyncio.gather(answer, *self._guards, return_exceptions=True)
            self._worker.precedence.end()
            # Their cancellations hold their frames, and these the cell with all that it has shown: without a circle it
            # is freed with its session, and not when the collector comes by, which may be after a hundred sessions.
            self._guards.clear()
            self.finished.set()

    def stop(self, status: Status, cause: str, *, kill: bool = False) -> None:
        """End the cell, by an interrupt first unless ``kill``; the status and cause of the first call are reported."""
        if self._status is None:
            self._status, self._cause = status, cause
        if kill:
            self._kill()
        else:
            self._worker.precedence.go_on()
            self._worker.interrupt()
            self._guard(self._kill_later())

    def _kill(self) -> None:
        self._is_killed = True
        self._worker.kill()

    def _guard(self, duty: Coroutine[Any, Any, None]) -> None:
        self._guards.add(asyncio.create_task(duty))

    async def _until_ended(self, answer: asyncio.Task[WorkerResult]) -> None:
        """Wait for the answer or for the worker's end; raise the error of a guard that fails."""
        ended = asyncio.create_task(self._worker.exited.wait())
        try:
            while not (answer.done() or ended.done()):
                await asyncio.wait({answer, ended, *self._guards}, return_when=asyncio.FIRST_COMPLETED)
                self._collect_guards()
        finally:
            ended.cancel()

    async def _until_resting(self) -> None:
        """Wait until the worker waits for its next request: its limits hold until then, whatever it has answered.

        Code that writes the answer itself, and goes on, would else have all the time of the session.
        """
        pause = FIRST_REST_S
        ended = asyncio.create_task(self._worker.exited.wait())
        try:
            # One that is killed is waited for, wherever it was: the outcome says that the session is lost.
            while not ended.done() and (self._is_killed or not is_resting(self._worker.pid)):
                await asyncio.wait({ended, *self._guards}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                self._collect_guards()
                pause = min(2 * pause, WATCH_S)
        finally:
            ended.cancel()

    def _collect_guards(self) -> None:
        """Forget the guards that have done their duty; raise the error of one that has failed."""
        for guard in [guard for guard in self._guards if guard.done()]:
            self._guards.discard(guard)
            guard.result()

    async def _ask(self, code: str) -> WorkerResult:
        """Send the cell, and read frames up to its end; raise ``BadFrame`` for a wrong one, or too many displays."""
        await self._worker.send({"kind": "execute", "nonce": self._nonce, "cell": self._number, "code": code})
        large = 0
        while True:
            frame = await self._worker.receive(self._nonce)
            if frame.kind is FrameKind.RESULT:
                return reports.parse_result(frame.texts)
            # Counted before they are looked at, whatever they are: a cell that floods us ends.
            self._displays += 1
            self._display_bytes += len(frame.data)
            if self._displays > MAX_DISPLAYS or self._display_bytes > MAX_DISPLAY_BYTES:
                raise BadFrame("more displays than a cell may have")
            self._show(reports.parse_display(frame.texts, frame.data))
            if len(frame.data) > LARGE_DISPLAY_BYTES:
                await asyncio.sleep(large * DISPLAY_PAUSE_S)
                large += 1

    def _show(self, display: Display | None) -> None:
        """Emit a display after the output printed before it."""
        if display is None:
            return
        # What was printed before the figure may still be in the pipes.
        for pipe in (self._worker.stdout, self._worker.stderr):
            pipe.drain()
        self._emit(display)

    def _take_output(self, stream: str, data: bytes) -> None:
        text = self._output_budget.take(stream, data)
        if text:
            self._emit(Output(stream, text))
        if self._output_budget.seen_bytes > self._config.flood_bytes and self._status is None:
            cause = f"more than {self._config.flood_bytes:,} bytes of output"
            self.stop(Status.OUTPUT_LIMIT, cause, kill=True)

    async def _stop_when_late(self, wall_s: float) -> None:
        await asyncio.sleep(wall_s)
        self.stop(Status.TIMEOUT, f"the cell ran longer than {wall_s:g} s")

    async def _give_way_later(self) -> None:
        # A cell that computes for long does not notice; one that has just begun would wait behind all of them.
        begun_s, pause = procfs.read_cpu_s(self._worker.pid), FIRST_WATCH_S
        while pause < LONG_CELL_S and procfs.read_cpu_s(self._worker.pid) - begun_s < LONG_CELL_CPU_S:
            await asyncio.sleep(pause)
            pause *= 2
        self._worker.precedence.give_way_for_now()
        # Without a pause up to here: most of those that compute at all are over by now.
        await asyncio.sleep(FREE_TURN_S)
        if self._status is None:
            self._worker.precedence.take_turns()

    async def _kill_later(self) -> None:
        await asyncio.sleep(self._config.interrupt_grace_s)
        self._kill()

    async def _watch(self, started: float) -> None:
        """End the worker when its session has too much memory, CPU time or files, or too many processes."""
        # A short cell is over before /proc has been read once; what it may do until then, the kernel bounds.
        await asyncio.sleep(FIRST_WATCH_S)
        # Apart, since memory and files may have to wait for their turn to be read.
        await asyncio.gather(self._watch_processes(started), self._watch_memory(started), self._watch_scratch(started))

    async def _watch_processes(self, started: float) -> None:
        """End the worker when its session has too many processes or has used too much CPU time."""
        config = self._config
        while not self._is_killed:
            usage = await self._usage_reader.usage(self._worker.init_pid, started)
            self._worker.precedence.note_use(usage.processes, usage.cpu_s)
            if len(usage.pids) > config.processes:
                self.stop(Status.KILLED, f"more than {config.processes} processes", kill=True)
            elif usage.cpu_s * 1000 > config.cpu_ms:
                self.stop(Status.TIMEOUT, f"the session used more than {config.cpu_ms / 1000:g} s of CPU", kill=True)
            await asyncio.sleep(WATCH_S)

    async def _watch_memory(self, started: float) -> None:
        """End the worker when its session has too much memory, or the kernel has found it to have."""
        limit = self._config.memory_bytes
        while not self._is_killed:
            usage = await self._usage_reader.usage(self._worker.init_pid, started)
            memory = await self._worker.measure_memory(usage, limit, self._usage_reader)
            self._peak = max(self._peak, memory)
            if memory > limit:
                self.stop(Status.OOM, f"{memory:,} bytes are over {limit:,}", kill=True)
            elif self._worker.oom_kills > self._oom_kills:
                # The kernel has taken one process of the session; the others go with it.
                self.stop(Status.OOM, describe_oom(limit), kill=True)
            await asyncio.sleep(WATCH_S)

    async def _watch_scratch(self, started: float) -> None:
        """End the worker when its session has too much in its scratch folder."""
        while not self._is_killed:
            usage = await self._usage_reader.usage(self._worker.init_pid, started)
            use = await self._worker.measure_scratch(usage, self._usage_reader)
            if use.excess:
                self.stop(Status.DISK_LIMIT, use.excess, kill=True)
            await asyncio.sleep(WATCH_S)

    async def _read(self, answer: asyncio.Task[WorkerResult]) -> WorkerResult | None:
        """Return the worker's claims, or None when it is gone; end a worker that breaks the protocol."""
        await asyncio.wait({answer}, timeout=ANSWER_GRACE_S)
        if answer.done():
            try:
                return answer.result()
            except BadFrame as error:
                self.is_forged = True
                self.stop(Status.KILLED, f"the worker broke the protocol: {error}", kill=True)
            except (asyncio.IncompleteReadError, OSError):
                # Its end follows at once, unless it has closed its socket only; then it is of no use and goes.
                with suppress(TimeoutError):
                    async with asyncio.timeout(ANSWER_GRACE_S):
                        await self._worker.exited.wait()
        self._worker.kill()
        await self._worker.exited.wait()
        return None

    def _build_outcome(self, done: WorkerResult | None, started: float) -> Outcome:
        """Return the outcome: facts measured outside first, completed by the worker's claims."""
        claimed = done or WorkerResult()
        status, cause = self._status, self._cause
        if status is None and done is not None:
            status = Status.ERROR if done.error_name else Status.OK
        elif status is None and self._worker.oom_kills > self._oom_kills:
            status, cause = Status.OOM, describe_oom(self._config.memory_bytes)
        elif status is None:
            status, cause = classify_exit(self._worker.returncode)
        return Outcome(
            status,
            claimed.result,
            claimed.traceback,
            claimed.error_name,
            claimed.error_value,
            claimed.variables,
            int((time.monotonic() - started) * 1000),
            self._peak,
            self._output_budget.dropped_bytes,
            self._number,
            # After an answer, too, the worker may have been ended for what it went on doing.
            done is None or self._worker.exited.is_set(),
            cause,
        )


def describe_oom(limit: int) -> str:
    return f"the kernel ended it: its memory exceeded {limit:,} bytes"


def classify_exit(returncode: int | None) -> tuple[Status, str]:
    """Return status and cause for a worker that ended without being stopped."""
    # The soft limit of RLIMIT_CPU, one second before its SIGKILL.
    if returncode == -signal.SIGXCPU:
        return Status.TIMEOUT, "the worker used up its CPU time"
    return Status.KILLED, describe_exit(returncode)


def describe_exit(returncode: int | None) -> str:
    """Return in words why a worker is gone."""
    if returncode is None:
        return "the worker was ended"
    if returncode < 0:
        return f"the worker was ended by {name_signal(-returncode)}"
    return f"the worker exited with status {returncode}"


def name_signal(number: int) -> str:
    """Return a signal's name, "SIGKILL" for 9; real-time signals have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
