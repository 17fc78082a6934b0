"""Suspend a process and be sure that it is suspended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_until


@contextmanager
def pause(pid: int) -> Iterator[None]:
    """Stop a process with SIGSTOP, wait until each of its threads has stopped, and let it go on afterwards."""
    suspend(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def suspend(pid: int) -> None:
    """Stop a process with SIGSTOP and wait until each of its threads has stopped.

    The signal alone is not enough: a thread that runs on another processor stops only when the kernel interrupts it,
    and until then it answers requests.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: has_stopped(pid))


def has_stopped(pid: int) -> bool:
    """Return whether every thread of a process is in the state "stopped" (T in ``/proc``)."""
    # The program's name stands before in parentheses and may itself have some: what follows the last one is the state.
    states = (path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat"))
    return all(state == "T" for state in states)
