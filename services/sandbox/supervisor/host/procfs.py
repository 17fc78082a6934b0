"""Facts about a session's processes, which the supervisor reads from /proc: a worker's own words are only claims."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
# CPUCLOCK_SCHED of the kernel: what the scheduler has counted for a whole process.
CPU_CLOCK = 2
# More than a line of /proc/PID/stat has, and the fields of it that are read here, counted behind the name.
STAT_BYTES, STAT_FIELDS = 1_024, 22
# Half of the watch's interval, so that cells that run side by side share one reading.
FRESH_S = 0.05
# Longer where a reading is expensive, since sessions full of processes would else make the watch of them all a load
# on their neighbours: it takes at most a tenth of a processor.
FRESH_COSTS = 10
# A reading keeps the loop from its sessions for no longer, some fifty processes, and then leaves it to them for as long
# as a short cell takes.
SLICE_S, SLICE_PAUSE_S = 0.0005, 0.002
# Half a second in all: a process may fork between being seen and being killed.
SWEEPS = 50
SWEEP_PAUSE_S = 0.01


@dataclass(frozen=True)
class Process:
    """A living process: resident bytes, and CPU seconds including those of its waited-for children.

    ``session`` and ``group`` are the kernel's, by which terminals send signals.

    ``faults`` counts its page faults, ``started`` is its start in the kernel's ticks: with its number it is unique.
    """

    pid: int
    parent: int
    session: int
    resident_bytes: int
    cpu_s: float
    faults: int = 0
    started: int = 0
    group: int = 0


@dataclass
class Usage:
    """Resources that all living processes of a session use together."""

    resident_bytes: int = 0
    cpu_s: float = 0.0
    processes: list[Process] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes."""
        return [process.pid for process in self.processes]


def read_process(pid: str | int) -> Process | None:
    """Return a living process, None when it has ended."""
    try:
        # Without a file object, which costs half as much again: there may be thousands of them to read.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The command's name stands in parentheses and may itself hold any byte.
        fields = os.read(descriptor, STAT_BYTES).rpartition(b")")[2].split(maxsplit=STAT_FIELDS)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    # Ended, but not yet waited for: such a process uses nothing any more.
    if fields[0] in (b"Z", b"X"):
        return None
    # utime, stime, cutime and cstime of proc(5), counted from the field behind the name.
    cpu_s = sum(int(value) for value in fields[11:15]) / TICKS
    faults = int(fields[7]) + int(fields[9])
    parent, group, session, started, pages = (int(fields[at]) for at in (1, 2, 3, 19, 21))
    return Process(int(pid), parent, session, pages * PAGE, cpu_s, faults, started, group)


def read_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process with all its threads, to the microsecond; 0 when it has ended."""
    try:
        # The kernel's number for this clock, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime(~pid << 3 | CPU_CLOCK)
    except OSError:
        return 0.0


def list_processes() -> Iterator[Process]:
    """Yield all living processes that can be seen."""
    with os.scandir("/proc") as entries:
        pids = [entry.name for entry in entries if entry.name.isdigit()]
    for pid in pids:
        found = read_process(pid)
        if found is not None:
            yield found


class UsageReader:
    """One reading of /proc, shared by all cells that ask within ``FRESH_S`` seconds."""

    def __init__(self) -> None:
        self._reading: asyncio.Task[Snapshot] | None = None
        self._taken, self._fresh_s = 0.0, FRESH_S
        # Of the usual precedence, and one for all sessions: what they can make us read must not keep others waiting.
        self._slow = ThreadPoolExecutor(1, "usage")

    async def read_pss(self, pid: int) -> int:
        """Return the memory of a process as PSS, in its turn."""
        return await self.read_in_turn(read_pss_bytes, pid)

    async def read_in_turn(self, read: Callable[..., T], *arguments: Any) -> T:
        """Return what a function reads that blocks, after what others have asked for before."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, read, *arguments)

    def close(self) -> None:
        """End the thread."""
        self._slow.shutdown(wait=False, cancel_futures=True)

    async def usage(self, root: int, not_before: float) -> Usage:
        """Return the usage of all descendants of a session's init process, read after ``not_before`` (monotonic clock).

        The init process itself adds CPU time only: its own, and that of children it has waited for.
        """
        now = time.monotonic()
        stale = self._reading is not None and self._reading.done() and now - self._taken > self._fresh_s
        # A reading from before a cell began must not count against the cell.
        if self._reading is None or stale or self._taken < not_before:
            self._taken = now
            self._reading = asyncio.create_task(take_snapshot())
        reading = await asyncio.shield(self._reading)
        self._fresh_s = max(FRESH_S, FRESH_COSTS * reading.cost_s)
        usage, waiting = Usage(), [root]
        while waiting:
            for item in reading.children.get(waiting.pop(), []):
                usage.resident_bytes += item.resident_bytes
                usage.cpu_s += item.cpu_s
                usage.processes.append(item)
                waiting.append(item.pid)
        # Orphans that have ended are in its sum: without it, processes that leave their parent would cost nothing.
        usage.cpu_s += reading.living[root].cpu_s if root in reading.living else 0.0
        return usage


@dataclass(frozen=True)
class Snapshot:
    """All living processes at one moment, by their own id and by their parent's.

    ``cost_s`` is the processor time that the reading took.
    """

    living: dict[int, Process]
    children: dict[int, list[Process]]
    cost_s: float = 0.0


async def take_snapshot() -> Snapshot:
    """Return one reading of /proc, as ``read_snapshot`` does, in slices between which the loop goes on.

    Not in a thread: one that waits for a processor while it holds Python's lock, as it does beside a fork bomb, keeps
    the loop waiting, and every session with it.
    """
    living: dict[int, Process] = {}
    cost_s, begun = 0.0, time.thread_time()
    for item in list_processes():
        living[item.pid] = item
        if (took_s := time.thread_time() - begun) > SLICE_S:
            cost_s += took_s
            await asyncio.sleep(SLICE_PAUSE_S)
            begun = time.thread_time()
    return build_snapshot(living, cost_s + time.thread_time() - begun)


def read_snapshot() -> Snapshot:
    """Return one reading of /proc; orphans of a session appear as children of its init process. Blocks."""
    begun = time.thread_time()
    living = {item.pid: item for item in list_processes()}
    return build_snapshot(living, time.thread_time() - begun)


def build_snapshot(living: dict[int, Process], cost_s: float) -> Snapshot:
    """Return living processes by their own id as a snapshot, whose reading took ``cost_s``."""
    children: dict[int, list[Process]] = {}
    for item in living.values():
        children.setdefault(item.parent, []).append(item)
    return Snapshot(living, children, cost_s)


def find_first_child(pid: int) -> int:
    """Return the process id of a process's eldest child; 0 when it has none."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            children = file.read().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def read_pss_bytes(pid: int) -> int:
    """Return the memory of a process in bytes, as PSS: shared pages count in parts; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:")), 0)
    except OSError:
        return 0


def reset_peak(pid: int) -> None:
    """Reset the kernel's measure of a process's peak memory, where that is allowed."""
    try:
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            # 5 resets VmHWM, see proc(5).
            file.write("5")
    except OSError:
        return


def read_peak_bytes(pid: int) -> int:
    """Return the peak resident bytes of a process since ``reset_peak``; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(b"VmHWM:")), 0)
    except OSError:
        return 0


def has_marker(pid: int, marker: bytes) -> bool:
    """Return whether the process was started with this line in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return marker in file.read().split(b"\0")
    except OSError:
        return False


def belongs_to(pid: int, uid: int) -> bool:
    """Return whether a process runs as this user; never for a negative one."""
    try:
        return uid >= 0 and os.stat(f"/proc/{pid}").st_uid == uid
    except OSError:
        return False


def kill_leftovers(session: int, marker: bytes, uid: int = -1) -> int:
    """Kill every process left of a session whose leader has ended, and return how many are still there. Blocks.

    A process belongs to the session by its session id or, having left it, by the marker in its environment, or by the
    user where the session has one of its own. The number of rounds is bounded.
    """
    left: list[int] = []
    for _ in range(SWEEPS):
        left = [
            item.pid
            for item in list_processes()
            if item.session == session or has_marker(item.pid, marker) or belongs_to(item.pid, uid)
        ]
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(SWEEP_PAUSE_S)
    return len(left)
