"""Requests to the kernel's scheduler: how short a turn threads ask for, and how far they stay behind."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fathom.services.sandbox.inside.jail import kernel

# A thread that asks for short turns gets its turn sooner (Linux 6.12 on; older kernels take the request and ignore it).
# The shortest that the kernel grants, against three times its usual one.
SHORT_TURN_NS, LONG_TURN_NS = 100_000, 10_000_000
LAST_NICE = 19
# Ten times the weight of a cell, by the kernel's table of nice values.
FIRST_NICE = -10


class SchedulingAttributes(ctypes.Structure):
    """``struct sched_attr`` in its first version."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    ]


def go_first() -> None:
    """Let the calling thread run before cells, as far as the kernel lets it; what it starts is as usual."""
    # The nice value is for privileged services alone; the length of a turn is for all.
    set_nice([0], FIRST_NICE)
    ask_for_turns(0, SHORT_TURN_NS)


def ask_for_turns(thread: int, turn_ns: int) -> None:
    """Ask for turns of this length for a thread, 0 for the calling one; do nothing where that cannot be asked for.

    What the thread starts has turns of the usual length, and no nice value below 0.
    """
    with suppress(OSError, KeyError):
        # The call sets the nice value too.
        nice = os.getpriority(os.PRIO_PROCESS, thread)
        # The flag is SCHED_FLAG_RESET_ON_FORK, policy 0 the usual one.
        size = ctypes.sizeof(SchedulingAttributes)
        wanted = SchedulingAttributes(size=size, flags=1, nice=nice, runtime=turn_ns)
        kernel.call("sched_setattr", thread, ctypes.byref(wanted), 0)


def list_threads(pid: int) -> list[int]:
    """Return the threads of a process; none when it has ended."""
    return [int(path.name) for path in Path(f"/proc/{pid}/task").glob("*")]


def read_nice(pid: int) -> int:
    """Return the nice value of a process; 0 when it has ended."""
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        return 0


def set_nice(threads: Iterable[int], nice: int) -> None:
    """Set the nice value of threads, of those that have not ended and that the caller may change."""
    for thread in threads:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, nice)


def may_lower_nice() -> bool:
    """Return whether this process may take back a nice value, which the kernel lets privileged ones only."""
    answers: list[bool] = []

    def attempt() -> None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        try:
            os.setpriority(os.PRIO_PROCESS, 0, min(nice + 1, LAST_NICE))
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except OSError:
            answers.append(False)
        else:
            answers.append(True)

    # On Linux the value is a thread's own: this one ends with it.
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return answers == [True]
