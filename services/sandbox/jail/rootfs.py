"""The worker's file system: read-only binds of the system and of Python, and a bounded scratch folder of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from services.sandbox.jail import kernel
from services.sandbox.jail.plan import HOME, INSIDE_UID

STAGING = "/tmp"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
DEVICES = ("null", "zero", "random", "urandom")
PASSWD = f"session:x:{INSIDE_UID}:{INSIDE_UID}::{HOME}:/bin/false\n"
FILES = {"etc/passwd": PASSWD, "etc/group": f"session:x:{INSIDE_UID}:\n", "etc/hosts": "", "etc/nsswitch.conf": ""}
SAFE = kernel.MS_NOSUID | kernel.MS_NODEV


def runtime_paths() -> tuple[str, ...]:
    """What Python code needs to read, at the paths where it is outside: lazily imported modules resolve by path."""
    prefixes = {os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, sys.exec_prefix)}
    paths = [*SYSTEM, "/etc/ld.so.cache", *sorted(prefixes)]
    return tuple(path for path in paths if not any(path.startswith(f"{other}/") for other in paths))


def build(paths: Iterable[str], scratch_bytes: int, scratch_files: int, shm_bytes: int) -> None:
    """Replaces the root of this mount namespace; nothing of the old one stays reachable.

    Needs a user namespace in which the caller has all capabilities, and to be the first process of its
    process namespace. Sizes in bytes; ``scratch_files`` counts files and folders. Raises ``OSError``.
    """
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    # Opened before anything is covered: one of them may lie below the staging folder.
    sources = {path: os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in paths if os.path.lexists(path)}
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    kernel.mount("tmpfs", STAGING, "tmpfs", SAFE, "size=1m,nr_inodes=1k,mode=755")
    os.umask(0o022)
    for path, source in sources.items():
        bind(path, source)
    make_devices(devices, shm_bytes)
    for name, text in FILES.items():
        with open(staged(name), "w") as file:
            file.write(text)
    make_folder("/proc")
    kernel.mount("proc", staged("/proc"), "proc", SAFE | kernel.MS_NOEXEC)
    make_folder(HOME)
    options = f"size={scratch_bytes},nr_inodes={scratch_files},mode=700,uid={INSIDE_UID},gid={INSIDE_UID}"
    kernel.mount("tmpfs", staged(HOME), "tmpfs", SAFE | kernel.MS_NOEXEC, options)
    os.symlink(HOME, staged("/tmp"))
    enter()


def staged(path: str) -> str:
    return f"{STAGING}/{path.lstrip('/')}"


def make_folder(path: str) -> None:
    os.makedirs(staged(path), mode=0o755, exist_ok=True)


def bind(path: str, source: int) -> None:
    """Shows a file or folder of the host read-only; a link is made anew."""
    here = f"/proc/self/fd/{source}"
    make_folder(os.path.dirname(path))
    if os.path.islink(path):
        os.symlink(os.readlink(path), staged(path))
        return
    if os.path.isdir(here):
        make_folder(path)
    else:
        os.close(os.open(staged(path), os.O_CREAT | os.O_WRONLY, 0o444))
    kernel.mount(here, staged(path), "", kernel.MS_BIND | kernel.MS_REC)
    attributes = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
    kernel.set_mount(staged(path), attributes, recursive=True)


def make_devices(devices: dict[str, int], shm_bytes: int) -> None:
    """The harmless devices, one by one, and shared memory of the session's own."""
    make_folder("/dev")
    make_folder("/etc")
    for name, source in devices.items():
        os.close(os.open(staged(f"/dev/{name}"), os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(f"/proc/self/fd/{source}", staged(f"/dev/{name}"), "", kernel.MS_BIND)
    make_folder("/dev/shm")
    options = f"size={shm_bytes},nr_inodes=64,mode=700,uid={INSIDE_UID},gid={INSIDE_UID}"
    kernel.mount("tmpfs", staged("/dev/shm"), "tmpfs", SAFE | kernel.MS_NOEXEC, options)
    os.symlink("/proc/self/fd", staged("/dev/fd"))


def enter() -> None:
    """Makes the staged tree the root, lets go of the old one and shuts the new one for writing."""
    os.chdir(STAGING)
    kernel.call("pivot_root", b".", b".")
    kernel.unmount(".", kernel.MNT_DETACH)
    os.chdir("/")
    kernel.set_mount("/", kernel.MOUNT_ATTR_RDONLY, recursive=False)
