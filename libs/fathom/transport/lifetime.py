"""Tying a child process to its parent, so that a killed stack leaves no process behind (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

# From linux/prctl.h; the signal is sent when the thread that started the child ends.
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
    """Ask the kernel for SIGTERM when the parent dies; end at once if it is dead already.

    Raises ``OSError`` when ``prctl`` fails.
    """
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have died before prctl took effect; the kernel does not signal that.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def ending_with_parent(command: Sequence[str], number: signal.Signals = signal.SIGTERM) -> list[str]:
    """Return ``command`` wrapped so that its process, with the same pid, gets ``number`` when this process dies."""
    # -I and -S: without the site and the environment of the user, the start takes milliseconds and can import nothing
    # foreign.
    return [sys.executable, "-I", "-S", "-c", BECOME, str(os.getpid()), str(int(number)), *command]
