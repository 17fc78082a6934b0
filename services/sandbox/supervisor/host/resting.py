"""Observation of the kernel that a worker waits for its next request: its own word for that is only a claim."""

from __future__ import annotations

from fathom.services.sandbox.inside.jail import kernel

# The call in which a worker waits; see ``Channel.receive`` of the worker.
WAITING_CALL = str(kernel.find_call_number("recvmsg")).encode()


def is_resting(pid: int) -> bool:
    """Return whether the main thread of a worker waits for a request; False for one that has ended.

    Where the kernel does not tell in which call it waits, any waiting counts.
    """
    try:
        with open(f"/proc/{pid}/syscall", "rb") as file:
            # Its number and arguments, or "running".
            return file.read().split()[0] == WAITING_CALL
    except (OSError, IndexError):
        return read_state(pid) in (b"S", b"I")


def read_state(pid: int) -> bytes:
    """Return the state of a process as proc(5) has it, b"" when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""
