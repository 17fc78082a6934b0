"""Host users that the supervisor lends to sessions, each to one at a time across all services on a machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from fathom.core.errors import DependencyFailed
from fathom.services.sandbox.supervisor.host import procfs

LAST_UID = 65_519
"""End of the range that systemd keeps for users of services; ``uid_base`` lies in it by default."""
RANGE = 4_336
"""Number of users in a range that begins beyond ``LAST_UID``."""
FOLDERS = ("/run", tempfile.gettempdir())
"""Candidates for the parent folder of the locks; the first that can be written to is taken."""


class UidPool:
    """Lender of users from ``base`` on, or of -1, the service's own, when it may not change users.

    Each user has a lock, a file that all services on the machine see whatever their network and number of sessions, and
    that the kernel unlocks when the process ends. Raise ``DependencyFailed`` when there is no place for the locks.
    """

    def __init__(self, base: int, folders: tuple[str, ...] = FOLDERS) -> None:
        self._users = range(base, (LAST_UID if base <= LAST_UID else base + RANGE - 1) + 1)
        self._next = 0
        self._locks: dict[int, int] = {}
        self._folder = find_lock_folder(folders) if os.geteuid() == 0 else None

    def lend(self) -> int:
        """Return a user that nobody else has, in rotation; raise ``DependencyFailed`` when there is none."""
        if self._folder is None:
            return -1
        for step in range(len(self._users)):
            uid = self._users[(self._next + step) % len(self._users)]
            if uid not in self._locks and self._lock(self._folder / str(uid), uid):
                self._next += step + 1
                return uid
        raise DependencyFailed("sandbox", f"no free user for a session from {self._users[0]} to {self._users[-1]}")

    # Two sessions with one user could signal each other, and without a process namespace the end of a session kills
    # whatever its user runs. A user that runs anything is left out too, e.g. one whose service has just been killed.
    def _lock(self, path: Path, uid: int) -> bool:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            idle = not has_processes(uid)
        except BlockingIOError:
            idle = False
        if idle:
            self._locks[uid] = lock
        else:
            os.close(lock)
        return idle

    def give_back(self, uid: int) -> None:
        """Release the user of a session that has ended."""
        if uid >= 0:
            os.close(self._locks.pop(uid))

    def close(self) -> None:
        """Release all users."""
        for uid in list(self._locks):
            self.give_back(uid)


def find_lock_folder(folders: tuple[str, ...]) -> Path:
    """Return the folder of the locks, which only this user may write; raise ``DependencyFailed`` with every cause."""
    causes = []
    for parent in folders:
        path = Path(parent) / "fathom-sandbox-users"
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            status = os.fstat(descriptor)
            os.close(descriptor)
            # In /tmp anybody may have made the folder before, and could hold every lock in it.
            if status.st_uid == os.geteuid() and not status.st_mode & 0o022 and os.access(path, os.W_OK):
                return path
            causes.append(f"{path} must belong to user {os.geteuid()} and be writable by nobody else")
        except OSError as error:
            causes.append(str(error))
    raise DependencyFailed("sandbox", f"nowhere to lock the users of sessions: {'; '.join(causes)}")


def has_processes(uid: int) -> bool:
    """Return whether any process that is visible here runs as this user."""
    try:
        # One system call over all processes, where a walk through /proc takes one for each.
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    # gVisor's kernel answers with the priority of who asks, whatever user is asked for.
    return any(procfs.belongs_to(process.pid, uid) for process in procfs.list_processes())
