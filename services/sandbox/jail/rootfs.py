"""The worker's file system: read-only binds of the system and of Python, and a bounded scratch folder of its own."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping

from services.sandbox.jail import kernel
from services.sandbox.jail.plan import HOME, INSIDE_UID, Plan

STAGING = "/tmp"
TEMPORARY = "/tmp"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
DEVICES = ("null", "zero", "random", "urandom")
PASSWD = f"session:x:{INSIDE_UID}:{INSIDE_UID}::{HOME}:/bin/false\n"
FILES = {"etc/passwd": PASSWD, "etc/group": f"session:x:{INSIDE_UID}:\n", "etc/hosts": "", "etc/nsswitch.conf": ""}
SAFE = kernel.MS_NOSUID | kernel.MS_NODEV


def runtime_paths() -> tuple[str, ...]:
    """What Python code needs to read, at the paths where it is outside: lazily imported modules resolve by path.

    A prefix that was reached through a link is named both ways, since Python looks for modules where it was told to.
    """
    prefixes = {os.path.abspath(path) for path in (sys.base_prefix, sys.prefix, sys.exec_prefix)}
    prefixes |= {os.path.realpath(path) for path in prefixes}
    paths = [*SYSTEM, "/etc/ld.so.cache", *sorted(prefixes)]
    return tuple(path for path in paths if not any(path.startswith(f"{other}/") for other in paths))


def open_runtime(paths: Iterable[str]) -> dict[str, int]:
    """Copy the mounts at these paths, to be attached in a session's file system; links of the system's own are
    left out. Needs to be done where the paths can be reached, which for a service that is root is before it becomes
    somebody else. Raises ``OSError`` with the path."""
    trees: dict[str, int] = {}
    try:
        for path in paths:
            if os.path.exists(path) and not is_system_link(path):
                trees[path] = kernel.open_tree(path)
    except OSError:
        for tree in trees.values():
            os.close(tree)
        raise
    return trees


def build(paths: Iterable[str], runtime: Mapping[str, int], plan: Plan) -> None:
    """Replaces the root of this mount namespace; nothing of the old one stays reachable.

    All that the session can write is mounted before the runtime, which may lie below it: Python and a checkout can
    be in any folder, /tmp and the session's own home among them. Needs a user namespace in which the caller has all
    capabilities, and to be the first process of its process namespace. Raises ``OSError``.
    """
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    links = {path: os.readlink(path) for path in paths if is_system_link(path)}
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    kernel.mount("tmpfs", STAGING, "tmpfs", SAFE, "size=1m,nr_inodes=1k,mode=755")
    os.umask(0o022)
    make_scratch(plan.scratch_bytes, plan.scratch_files)
    make_devices(devices, plan.shm_bytes)
    for name, text in FILES.items():
        with open(staged(name), "w") as file:
            file.write(text)
    make_folder("/proc")
    kernel.mount("proc", staged("/proc"), "proc", SAFE | kernel.MS_NOEXEC)
    for path, target in links.items():
        os.symlink(target, staged(path))
    for path, tree in runtime.items():
        attach(path, tree)
    enter()


def is_system_link(path: str) -> bool:
    """Return whether it is one of the system's folders that are links on many systems, which are made anew."""
    return path in SYSTEM and os.path.islink(path)


def staged(path: str) -> str:
    return f"{STAGING}/{path.lstrip('/')}"


def make_folder(path: str) -> None:
    os.makedirs(staged(path), mode=0o755, exist_ok=True)


def make_scratch(scratch_bytes: int, scratch_files: int) -> None:
    """Make the home folder and /tmp, two folders of one file system, so that one quota bounds both."""
    whole = staged("/scratch")
    os.mkdir(whole)
    options = f"size={scratch_bytes},nr_inodes={scratch_files},mode=755"
    kernel.mount("tmpfs", whole, "tmpfs", SAFE | kernel.MS_NOEXEC, options)
    for path, mode in ((HOME, 0o700), (TEMPORARY, 0o1777)):
        folder = f"{whole}/{os.path.basename(path)}"
        os.mkdir(folder)
        os.chmod(folder, mode)
        make_folder(path)
        kernel.mount(folder, staged(path), "", kernel.MS_BIND)
    os.chown(staged(HOME), INSIDE_UID, INSIDE_UID)
    kernel.unmount(whole, 0)
    os.rmdir(whole)


def attach(path: str, tree: int) -> None:
    """Show a file or folder of the host read-only."""
    make_folder(os.path.dirname(path))
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        make_folder(path)
    else:
        os.close(os.open(staged(path), os.O_CREAT | os.O_WRONLY, 0o444))
    kernel.attach_tree(tree, staged(path))
    os.close(tree)
    attributes = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
    kernel.set_mount(staged(path), attributes, recursive=True)


def make_devices(devices: dict[str, int], shm_bytes: int) -> None:
    """The harmless devices, one by one, and shared memory of the session's own."""
    make_folder("/dev")
    make_folder("/etc")
    for name, source in devices.items():
        os.close(os.open(staged(f"/dev/{name}"), os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(f"/proc/self/fd/{source}", staged(f"/dev/{name}"), "", kernel.MS_BIND)
        os.close(source)
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
