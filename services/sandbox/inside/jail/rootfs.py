"""File system of a session, built by its init process: system and Python read-only, and a bounded scratch folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping

from fathom.services.sandbox.inside.jail import kernel
from fathom.services.sandbox.ipc.plan import HOME, INSIDE_UID, SessionPlan

STAGING = "/tmp"
TEMPORARY = "/tmp"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
DEVICES = ("null", "zero", "random", "urandom")
PASSWD = f"session:x:{INSIDE_UID}:{INSIDE_UID}::{HOME}:/bin/false\n"
# Libraries ask for the machine's fonts, which complains about a system without this file.
FONTS = '<fontconfig><dir>/usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>\n'
FILES = {
    "etc/passwd": PASSWD, "etc/group": f"session:x:{INSIDE_UID}:\n", "etc/hosts": "", "etc/nsswitch.conf": "",
    "etc/fonts/fonts.conf": FONTS,
}  # fmt: skip
SAFE = kernel.MS_NOSUID | kernel.MS_NODEV


def list_runtime_paths() -> tuple[str, ...]:
    """Return the paths that Python code needs to read; they are the same inside as outside."""
    # Lazily imported modules resolve by path. A prefix that was reached through a link is named both ways, since
    # Python looks for modules under the name it was given.
    prefixes = {os.path.abspath(path) for path in (sys.base_prefix, sys.prefix, sys.exec_prefix)}
    prefixes |= {os.path.realpath(path) for path in prefixes}
    paths = [*SYSTEM, "/etc/ld.so.cache", *sorted(prefixes)]
    return tuple(path for path in paths if not any(path.startswith(f"{other}/") for other in paths))


def open_runtime(paths: Iterable[str]) -> dict[str, int]:
    """Return copies of the mounts at these paths, to be attached in a session's file system.

    Links of the system's own are left out. To be called where the paths can be reached, which
    for a service that is root is before it becomes somebody else. Raise ``OSError`` with the path.
    """
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


def build(paths: Iterable[str], runtime: Mapping[str, int], plan: SessionPlan) -> None:
    """Replace the root of this mount namespace; nothing of the old one stays reachable.

    Needs a user namespace in which the caller has all capabilities, and to be the first process of its process
    namespace. Raise ``OSError``.
    """
    # pivot_root refuses a root whose mounts spread to other namespaces (pivot_root(2)).
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    links = {path: os.readlink(path) for path in paths if is_system_link(path)}
    devices = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES}
    # Holds mount points, links and four small files; all else is mounted into it.
    kernel.mount("tmpfs", STAGING, "tmpfs", SAFE, "size=1m,nr_inodes=1k,mode=755")
    os.umask(0o022)
    make_scratch(plan.scratch_bytes, plan.scratch_files)
    make_devices(devices, plan.shm_bytes)
    make_folder("/etc/fonts")
    for name, text in FILES.items():
        with open(stage_path(name), "w") as file:
            file.write(text)
    make_folder("/proc")
    kernel.mount("proc", stage_path("/proc"), "proc", SAFE | kernel.MS_NOEXEC)
    # The runtime comes after all that the session can write and may lie below it: Python and a checkout can be in any
    # folder, /tmp and the session's own home among them.
    for path, target in links.items():
        os.symlink(target, stage_path(path))
    for path, tree in runtime.items():
        attach(path, tree)
    enter_root()


def is_system_link(path: str) -> bool:
    """Return whether the path is a system folder that is a link here; sessions get the same link."""
    return path in SYSTEM and os.path.islink(path)


def stage_path(path: str) -> str:
    return f"{STAGING}/{path.lstrip('/')}"


def make_folder(path: str) -> None:
    os.makedirs(stage_path(path), mode=0o755, exist_ok=True)


def make_scratch(scratch_bytes: int, scratch_files: int) -> None:
    """Make the home folder and /tmp, two folders of one file system, so that one quota bounds both."""
    whole = stage_path("/scratch")
    os.mkdir(whole)
    options = f"size={scratch_bytes},nr_inodes={scratch_files},mode=755"
    kernel.mount("tmpfs", whole, "tmpfs", SAFE | kernel.MS_NOEXEC, options)
    for path, mode in ((HOME, 0o700), (TEMPORARY, 0o1777)):
        folder = f"{whole}/{os.path.basename(path)}"
        os.mkdir(folder)
        os.chmod(folder, mode)
        make_folder(path)
        kernel.mount(folder, stage_path(path), "", kernel.MS_BIND)
    os.chown(stage_path(HOME), INSIDE_UID, INSIDE_UID)
    # The two bind mounts keep the file system alive; its own root is not needed any more.
    kernel.unmount(whole, 0)
    os.rmdir(whole)


def attach(path: str, tree: int) -> None:
    """Show a file or folder of the host read-only."""
    make_folder(os.path.dirname(path))
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        make_folder(path)
    else:
        os.close(os.open(stage_path(path), os.O_CREAT | os.O_WRONLY, 0o444))
    kernel.attach_tree(tree, stage_path(path))
    os.close(tree)
    attributes = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
    kernel.set_mount(stage_path(path), attributes, recursive=True)


def make_devices(devices: dict[str, int], shm_bytes: int) -> None:
    """Make the harmless devices, one by one, and shared memory of the session's own."""
    make_folder("/dev")
    make_folder("/etc")
    for name, source in devices.items():
        os.close(os.open(stage_path(f"/dev/{name}"), os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(f"/proc/self/fd/{source}", stage_path(f"/dev/{name}"), "", kernel.MS_BIND)
        os.close(source)
    make_folder("/dev/shm")
    options = f"size={shm_bytes},nr_inodes=64,mode=700,uid={INSIDE_UID},gid={INSIDE_UID}"
    kernel.mount("tmpfs", stage_path("/dev/shm"), "tmpfs", SAFE | kernel.MS_NOEXEC, options)
    os.symlink("/proc/self/fd", stage_path("/dev/fd"))


def enter_root() -> None:
    """Make the staged tree the root, detach the old one and make the new one read-only."""
    os.chdir(STAGING)
    # The same folder twice: the old root comes to lie over the new one and needs no place of its own (pivot_root(2)).
    kernel.call("pivot_root", b".", b".")
    kernel.unmount(".", kernel.MNT_DETACH)
    os.chdir("/")
    kernel.set_mount("/", kernel.MOUNT_ATTR_RDONLY, recursive=False)
