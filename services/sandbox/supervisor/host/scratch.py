"""Scratch folders of sessions without a file system of their own, in one folder per supervisor that says whose it is.

A supervisor that is killed removes nothing. Its folder is then unlocked, and the next one to start removes it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from fathom.services.sandbox.supervisor.files import remove_tree

PREFIX = "fathom-sessions-"
LOCK = "lock"


class ScratchFolders:
    """Maker of scratch folders; its own folder appears with the first of them."""

    def __init__(self, parent: str = "") -> None:
        self._parent = Path(parent or tempfile.gettempdir())
        self._folder: Path | None = None
        self._lock = -1

    def create(self, uid: int) -> str:
        """Return a new empty folder, which belongs to ``uid`` unless that is negative."""
        folder = tempfile.mkdtemp(prefix="session-", dir=self._open())
        if uid >= 0:
            os.chown(folder, uid, uid)
        return folder

    def _open(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._parent))
            self._lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            # Users of sessions pass through it to their own, and may not list it.
            self._folder.chmod(0o711)
        return self._folder

    def sweep(self) -> int:
        """Remove the folders of supervisors that have ended without doing so, and return their number."""
        return sum(self._remove_abandoned(folder) for folder in self._parent.glob(f"{PREFIX}*"))

    def _remove_abandoned(self, folder: Path) -> bool:
        # The kernel unlocks a file when its process ends, in whatever container; another user's cannot be opened.
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_uid != os.geteuid():
                return False
            remove_tree(str(folder))
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def close(self) -> None:
        """Remove the folder of this supervisor; to be called when every session has ended."""
        if self._folder is not None:
            with suppress(OSError):
                remove_tree(str(self._folder))
            os.close(self._lock)
            self._folder = None
