"""Walls for workers that share the host's processes: what the filter of system calls refuses, in a process of its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from fathom.services.sandbox.supervisor.host import scheduling

INSTALL = """
import os, resource, signal, sys
from fathom.services.sandbox.inside.jail import kernel, seccomp
parent = os.getppid()
kernel.no_new_privileges()
seccomp.install(seccomp.compile_filter(alone={alone}, memory_files=True, signals={signals}))
try:
    {attempt}
except OSError as error:
    print(type(error).__name__)
else:
    print("done")
"""


def attempt(code: str, *, alone: bool = False, signals: bool = True) -> str:
    """Return what becomes of one statement behind the filter."""
    program = INSTALL.format(alone=alone, signals=signals, attempt=code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "resource.prlimit(parent, resource.RLIMIT_NOFILE)",
        "os.sched_setaffinity(parent, os.sched_getaffinity(0))",
        "os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent))",
    ],
)
def test_limits_of_other_processes_are_out_of_reach(code: str) -> None:
    assert attempt(code) == "PermissionError"
    # Where it sees nobody else's processes, nothing has to be refused.
    assert attempt(code, alone=True) == "done"


@pytest.mark.parametrize(
    "code",
    [
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        "os.sched_setaffinity(0, os.sched_getaffinity(0))",
        "os.nice(1)",
    ],
)
def test_its_own_limits_are_a_workers_to_tighten(code: str) -> None:
    assert attempt(code) == "done"


@pytest.mark.parametrize("code", ["os.kill(parent, 0)", "os.kill(os.getpid(), 0)", "os.pidfd_open(parent)"])
def test_no_signal_is_sent_where_the_kernel_cannot_keep_them_inside(code: str) -> None:
    assert attempt(code) == "done"
    assert attempt(code, signals=False) == "PermissionError"


def test_room_on_a_disk_of_the_hosts_is_taken_by_writing_alone() -> None:
    raw = "file = open('/dev/shm', os.O_TMPFILE | os.O_RDWR); kernel.call('fallocate', file, 0, 0, 1 << 20)"
    raw = raw.replace("open(", "os.open(")
    assert attempt(raw, alone=True) == "done"
    assert attempt(raw) == "OSError"
    # What programs call falls back to writing.
    assert attempt(raw.partition(";")[0] + "; os.posix_fallocate(file, 0, 1 << 20)") == "done"


def test_a_worker_cannot_ask_for_the_turns_of_one_that_begins() -> None:
    # The kernel would let anybody: only the filter keeps a cell that computes from taking a beginner's precedence.
    size = ctypes.sizeof(scheduling.SchedulingAttributes)
    code = f"kernel.call('sched_setattr', 0, ({size}).to_bytes(4, 'little') + bytes({size - 4}), 0)"
    assert attempt(code) == attempt(code, alone=True) == "PermissionError"
