"""Ties a child's life to its parent's, so that a killed stack leaves no process behind (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
# Run by a fresh interpreter that then becomes the program: Python code between fork and exec could
# wait for a lock that a thread of the parent holds, for ever.
BECOME = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]))
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


def end_with_parent() -> None:
    """Asks the kernel for SIGTERM when the parent dies; ends at once if that has happened already."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def ending_with_parent(command: Sequence[str], number: signal.Signals = signal.SIGTERM) -> list[str]:
    """``command`` such that its process, of the same pid, gets ``number`` when this process dies."""
    return [sys.executable, "-I", "-S", "-c", BECOME, str(os.getpid()), str(int(number)), *command]
