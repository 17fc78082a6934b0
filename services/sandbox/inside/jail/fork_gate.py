"""Gate through which new processes and threads of a session pass where no control group counts them.

The kernel asks the session's init process about each of them (seccomp_unotify(2)). The first ones pass at once; a crowd
grows slowly, stays behind all other work of the machine, and ends at the session's limit, where the next fork is
refused, as control groups do it. The supervisor, which has no precedence over cells where it is not privileged, is
thereby never one of a thousand that want a processor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from contextlib import suppress

from fathom.services.sandbox.inside.jail import kernel

# Processes and threads besides the worker's first that start without a pause: a small pool, and those of libraries.
FREE_TASKS = 8
# Between two more of them: a pool of the most allowed is complete after two seconds. Longer where looking at them costs
# more, of which the gate so takes a twentieth of a processor at most, and before a refusal, which asks to try again.
PAUSE_S, PAUSE_COSTS, REFUSAL_PAUSES = 0.025, 20, 4
CHILD_NICE = 5
# ``struct seccomp_notif``: id, pid, flags and the call; ``struct seccomp_notif_resp``: id, value, error, flags.
REQUEST, ANSWER = struct.Struct("=QII64x"), struct.Struct("=QqiI")
# _IOWR('!', 0, struct seccomp_notif) and _IOWR('!', 1, struct seccomp_notif_resp), linux/seccomp.h.
RECEIVE, SEND = 0xC0502100, 0xC0182101
GO_ON = 1


class ForkGate:
    """Gate of one session; ``listener`` receives the kernel's questions, ``most`` is how many tasks there may be.

    One question is held at a time; others wait in the kernel.
    """

    def __init__(self, listener: int, most: int) -> None:
        self.listener = listener
        self._most = most
        self._held, self._due, self._is_full = 0, 0.0, False
        self._behind: frozenset[int] = frozenset()
        self._idle: frozenset[int] = frozenset()

    @property
    def wait_s(self) -> float | None:
        """Seconds until the held question is to be answered; None when there is none."""
        return max(0.0, self._due - time.monotonic()) if self._held else None

    def take(self) -> None:
        """Take the next question, and answer it at once unless there is a crowd."""
        question = bytearray(REQUEST.size)
        try:
            fcntl.ioctl(self.listener, RECEIVE, question)
        except OSError:  # who asked has been killed or interrupted
            return
        begun = time.thread_time()
        tasks = list_tasks(os.getpid())
        count = sum(map(len, tasks.values()))
        # Until the answer there can be fewer, and no more.
        self._held, self._is_full = REQUEST.unpack(question)[0], count >= self._most
        is_crowd = count > FREE_TASKS
        self._put_behind(tasks, is_crowd=is_crowd)
        pause_s = max(PAUSE_S, PAUSE_COSTS * (time.thread_time() - begun)) if is_crowd else 0.0
        self._due = time.monotonic() + (REFUSAL_PAUSES * pause_s if self._is_full else pause_s)
        self.answer()

    def answer(self) -> None:
        """Answer the held question when its time has come."""
        if not self._held or time.monotonic() < self._due:
            return
        code, flags = (-errno.EAGAIN, 0) if self._is_full else (0, GO_ON)
        with suppress(OSError):  # as above
            fcntl.ioctl(self.listener, SEND, ANSWER.pack(self._held, 0, code, flags))
        self._held = 0

    def _put_behind(self, tasks: dict[int, list[int]], *, is_crowd: bool) -> None:
        """Put what the worker has started behind others; a crowd runs only when nobody else wants to."""
        # The worker itself is the eldest child, and is the supervisor's to put anywhere.
        started = list(tasks)[1:]
        known = self._idle if is_crowd else self._behind
        for thread in (thread for pid in started if pid not in known for thread in tasks[pid]):
            with suppress(OSError):
                if is_crowd:
                    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
                else:
                    nice = os.getpriority(os.PRIO_PROCESS, thread)
                    os.setpriority(os.PRIO_PROCESS, thread, max(nice, CHILD_NICE))
        self._behind = frozenset(started)
        self._idle = frozenset(started) if is_crowd else self._idle & self._behind


def list_tasks(pid: int) -> dict[int, list[int]]:
    """Return the threads of all descendants of a process, by process, elder children first."""
    found: dict[int, list[int]] = {}
    waiting = [pid]
    for parent in waiting:
        try:
            threads = [int(name) for name in os.listdir(f"/proc/{parent}/task")]
        except OSError:
            continue
        if parent != pid:
            found[parent] = threads
        for thread in threads:
            with suppress(OSError):
                waiting += map(int, kernel.read(f"/proc/{parent}/task/{thread}/children").split())
    return found
