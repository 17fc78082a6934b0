"""Host users for sessions: each is lent to one session at a time, whichever service on this machine lends it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from fathom.errors import DependencyFailed

LAST_UID = 65_519
"""The end of the range that systemd keeps for users of services, which ``uid_base`` begins in by default."""
RANGE = 4_336
"""Users that a range beyond that one has."""
FOLDERS = ("/run", tempfile.gettempdir())
"""Where the locks may lie: the first of these that can be written to."""


class Uids:
    """Users from ``base`` on; -1, the service's own, when it may not change users.

    Users that two sessions had could signal each other, and without a process namespace the end of a session kills
    whatever its user runs. So each user has a lock of its own, a file that all services see whatever their network
    and their number of sessions, and which the kernel unlocks with the process; a user that runs anything is left out
    too, e.g. one whose service has just been killed. Raises ``DependencyFailed`` when the locks can lie nowhere.
    """

    def __init__(self, base: int, folders: tuple[str, ...] = FOLDERS) -> None:
        self._users = range(base, (LAST_UID if base <= LAST_UID else base + RANGE - 1) + 1)
        self._next = 0
        self._locks: dict[int, int] = {}
        self._folder = lock_folder(folders) if os.geteuid() == 0 else None

    def take(self) -> int:
        """Return a user that nobody else has, the one given back last coming last. Raise ``DependencyFailed``."""
        if self._folder is None:
            return -1
        for step in range(len(self._users)):
            uid = self._users[(self._next + step) % len(self._users)]
            if uid not in self._locks and self._lock(self._folder / str(uid), uid):
                self._next += step + 1
                return uid
        raise DependencyFailed("sandbox", f"no free user for a session from {self._users[0]} to {self._users[-1]}")

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
        """Leave the user to others, when its session has ended."""
        if uid >= 0:
            os.close(self._locks.pop(uid))

    def close(self) -> None:
        """Leave all of them to others."""
        for uid in list(self._locks):
            self.give_back(uid)


def lock_folder(folders: tuple[str, ...]) -> Path:
    """Return the folder of the locks, which only this user may write. Raise ``DependencyFailed`` with every cause."""
    causes = []
    for parent in folders:
        path = Path(parent) / "fathom-sandbox-users"
        try:
            path.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            status = os.fstat(descriptor)
            os.close(descriptor)
            if status.st_uid == os.geteuid() and not status.st_mode & 0o022 and os.access(path, os.W_OK):
                return path
            causes.append(f"{path} must belong to user {os.geteuid()} and be writable by nobody else")
        except OSError as error:
            causes.append(str(error))
    raise DependencyFailed("sandbox", f"nowhere to lock the users of sessions: {'; '.join(causes)}")


def has_processes(uid: int) -> bool:
    """Return whether any process that can be seen from here runs as this user."""
    try:
        os.getpriority(os.PRIO_USER, uid)
    except ProcessLookupError:
        return False
    return True
