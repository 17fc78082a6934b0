"""Landlock rules, applied in the worker: reachable files, no TCP, no foreign abstract sockets, no foreign signals.

Source: kernel documentation, userspace-api/landlock, ABI 1 to 7.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from fathom.services.sandbox.inside.jail import kernel

VERSION_FLAG, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, MAKE_CHAR, MAKE_BLOCK = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 6, 1 << 11
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
# From this ABI on signals and abstract sockets can be kept inside.
SCOPES = 6
# Rights known by ABI version 1, 2 (refer), 3 (truncate), 5 (ioctl on devices).
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}


class Ruleset(ctypes.Structure):
    """``struct landlock_ruleset_attr``."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "network", "scoped")]


class PathRule(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    # The kernel declares it packed: without this the structure would be four bytes too long.
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def find_abi() -> int:
    """Return the ABI version that this kernel offers; 0 for none."""
    try:
        return kernel.call("landlock_create_ruleset", 0, 0, VERSION_FLAG)
    except (OSError, KeyError):
        return 0


def keeps_signals(walls: str) -> bool:
    """Return whether signals of a worker behind these walls stay inside by a namespace, or by Landlock."""
    return walls == "namespace" or (walls == "landlock" and find_abi() >= SCOPES)


class Domain:
    """Builder of a ruleset. It needs no privileges; ``restrict`` needs no_new_privs.

    ``entries`` are descriptors of the entries of ``/proc`` that it allows, which the caller leaves open in some process
    for as long as the rules are to hold.
    """

    def __init__(self) -> None:
        version = find_abi()
        if not version:
            raise OSError("Landlock is not offered by this kernel")
        self.entries: list[int] = []
        self._known_rights = (1 << RIGHTS[min(version, 5)]) - 1
        # TCP (ABI 4), foreign abstract sockets and foreign signals (ABI 6) are handled, and no rule allows any of them.
        # The structure has grown with the ABI: it is passed in the size that the kernel knows.
        wanted = Ruleset(self._known_rights, 0b11 if version >= 4 else 0, 0b11 if version >= SCOPES else 0)
        size = 24 if version >= SCOPES else 16 if version >= 4 else 8
        self._ruleset = kernel.call("landlock_create_ruleset", ctypes.byref(wanted), size, 0)

    def read(self, paths: Iterable[str]) -> None:
        """Allow to read and execute below the paths; those that do not exist are left out."""
        for path in paths:
            self._allow(path, READ)

    def list_names(self, paths: Iterable[str]) -> None:
        """Allow to list the folders below the paths, but not to read a file in them."""
        for path in paths:
            self._allow(path, READ_DIR)

    def write(self, paths: Iterable[str]) -> None:
        """Allow everything below the paths but execution and device files; those that do not exist are left out."""
        for path in paths:
            self._allow(path, self._known_rights & ~(MAKE_CHAR | MAKE_BLOCK | EXECUTE | IOCTL_DEV))

    def _allow(self, path: str, rights: int) -> None:
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            # The kernel refuses a rule for a file with rights that only folders have.
            rights &= self._known_rights if os.path.isdir(path) else self._known_rights & OF_FILES
            rule = PathRule(rights, parent)
            kernel.call("landlock_add_rule", self._ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            # A rule is for an inode. One of /proc is made anew once the kernel, short of memory, has dropped the entry
            # that leads to it, and no rule knows the new one; an entry that is open is never dropped.
            if path.startswith("/proc/"):
                self.entries.append(parent)
            else:
                os.close(parent)

    def restrict(self) -> None:
        """Restrict the caller and all its descendants, for good."""
        kernel.call("landlock_restrict_self", self._ruleset, 0)
        os.close(self._ruleset)
