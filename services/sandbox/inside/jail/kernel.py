"""System calls that Python's standard library lacks, with their errors as ``OSError``.

Used in the fork server, the init process and the worker; a few in the supervisor.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import system_calls

ARCH = {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
AUDIT_ARCH = {"x86_64": 0xC000003E, "arm64": 0xC00000B7}

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWTIME = 0x10000000, 0x20000000, 0x40000000, 0x00000080
NAMESPACES = {
    "user": CLONE_NEWUSER,
    "mnt": CLONE_NEWNS,
    "pid": CLONE_NEWPID,
    "net": CLONE_NEWNET,
    "ipc": CLONE_NEWIPC,
    "uts": CLONE_NEWUTS,
    "cgroup": CLONE_NEWCGROUP,
}
# Numbers from the kernel's headers (linux/mount.h, linux/sched.h), which are part of its interface and never change.
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, MOVE_MOUNT_F_EMPTY_PATH = 1, os.O_CLOEXEC, 4

# Handles that keep Python's lock: a child that starts in the middle of a call must still hold it.
LIBC = ctypes.PyDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


@cache
def find_call_number(name: str) -> int:
    """Return the number of a system call on this machine; raise ``KeyError`` for one that it does not have."""
    try:
        return int(system_calls.syscalls().get(name, ARCH))
    except system_calls.NotSupportedSystemCall as error:
        raise KeyError(name) from error


def raise_on_error(result: int, what: str) -> int:
    """Return the result; raise ``OSError`` with the call's name when it is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def call(name: str, *arguments: Any) -> int:
    """Make a raw system call and return its result; integers are passed as 64 bits."""
    # ctypes passes plain integers as 32 bits, and the upper half of the register would be whatever was there.
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return raise_on_error(int(LIBC.syscall(ctypes.c_long(find_call_number(name)), *passed)), name)


def prctl(option: int, *arguments: int) -> int:
    """Operate on the calling process (man 2 prctl), with up to four integers as arguments."""
    passed = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return raise_on_error(int(LIBC.prctl(option, *passed)), f"prctl {option}")


def clone(flags: int) -> int:
    """Fork into new namespaces; return 0 in the child, its process id in the parent. Needs a single-threaded caller.

    The interpreter's fork hooks run as for any fork.
    """
    if not flags:
        return os.fork()
    before: Callable[[], None] = ctypes.pythonapi.PyOS_BeforeFork
    after_child: Callable[[], None] = ctypes.pythonapi.PyOS_AfterFork_Child
    after_parent: Callable[[], None] = ctypes.pythonapi.PyOS_AfterFork_Parent
    # The raw call: unshare would put only later children into the process namespace, not this one.
    system_call = LIBC.syscall
    # Looked up before, so that between the hooks there is nothing but the call.
    arguments = [ctypes.c_long(value) for value in (find_call_number("clone"), flags | signal.SIGCHLD, 0, 0, 0, 0)]
    before()
    pid = int(system_call(*arguments))
    if pid == 0:
        after_child()
    else:
        after_parent()
    return raise_on_error(pid, "clone")


def unshare(flags: int) -> None:
    """Move the caller into new namespaces (man 2 unshare)."""
    raise_on_error(int(LIBC.unshare(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system (man 2 mount)."""
    paths = os.fsencode(source), os.fsencode(target)
    arguments = (*paths, kind.encode(), ctypes.c_ulong(flags), options.encode())
    raise_on_error(int(LIBC.mount(*arguments)), f"mount {kind or 'bind'} on {target}")


def unmount(target: str, flags: int) -> None:
    """Unmount a file system (man 2 umount2)."""
    raise_on_error(int(LIBC.umount2(os.fsencode(target), flags)), f"unmount {target}")


def open_tree(path: str) -> int:
    """Return a copy of the mounts at a path and below it, attached nowhere yet (man 2 open_tree)."""
    try:
        return call("open_tree", AT_FDCWD, os.fsencode(path), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} on {path}") from error


def attach_tree(tree: int, target: str) -> None:
    """Attach a copy returned by ``open_tree`` (man 2 move_mount)."""
    call("move_mount", tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_F_EMPTY_PATH)


class MountAttributes(ctypes.Structure):
    """``struct mount_attr``."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def set_mount(target: str, attributes: int, *, recursive: bool) -> None:
    """Add attributes to a mount, and to those below it when ``recursive`` (man 2 mount_setattr)."""
    wanted = MountAttributes(set=attributes)
    flags = AT_RECURSIVE if recursive else 0
    call("mount_setattr", AT_FDCWD, os.fsencode(target), flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


class CapabilityHeader(ctypes.Structure):
    """``struct __user_cap_header_struct``."""

    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def empty_bounding_set() -> None:
    """Empty the capability bounding set and remove root's special treatment, as far as the caller may.

    That takes CAP_SETPCAP; without it, no_new_privs is what keeps the other sets from growing.
    """
    path = "/proc/sys/kernel/cap_last_cap"
    # Without /proc, all that there is room for: dropping a capability that the kernel does not know ends the loop.
    last = int(read(path)) if os.path.exists(path) else 63
    with suppress(OSError):
        for capability in range(last + 1):
            prctl(24, capability)  # PR_CAPBSET_DROP
        prctl(28, 0b11101111)  # PR_SET_SECUREBITS: all but the keeping of capabilities for the next exec, and locked


def drop_capabilities() -> None:
    """Empty the caller's capability sets."""
    empty_bounding_set()
    prctl(47, 4)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
    # Version 3 of the interface: two records of three sets, all empty.
    header = CapabilityHeader(0x20080522, 0)
    empty = (ctypes.c_uint32 * 6)()
    call("capset", ctypes.byref(header), ctypes.byref(empty))


def no_new_privileges() -> None:
    """Set PR_SET_NO_NEW_PRIVS, for good."""
    prctl(38, 1)


def make_dumpable() -> None:
    """Make /proc/self the caller's own again after a change of user (PR_SET_DUMPABLE)."""
    prctl(4, 1)


def end_with_parent() -> None:
    """Make the kernel send SIGKILL when the parent ends (PR_SET_PDEATHSIG)."""
    prctl(1, signal.SIGKILL)


def adopt_orphans() -> None:
    """Adopt descendants whose parent ends, as children (PR_SET_CHILD_SUBREAPER)."""
    prctl(36, 1)


def reap() -> tuple[list[tuple[int, int]], bool]:
    """Return process id and status of every child that has ended, and whether any child is left; do not wait."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, False
        if pid == 0:
            return found, True
        found.append((pid, code))


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Write the text in one system call, as the files of /proc want it."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
