"""Remedies for a wall that cannot be built, found in the supervisor by wall, error number and machine."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

REFUSED = frozenset({errno.EPERM, errno.EACCES})
USERS_LIMIT = "user.max_user_namespaces"
USERS_SWITCH = "kernel.unprivileged_userns_clone"
APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
# Errors that say that something on disk is in the way, and not that a right is missing.
PATHS = frozenset(
    {errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP}
)
IN_POD = "in a pod: hostUsers: false, procMount: Unmasked and a seccomp profile that allows unshare, or the gVisor"
CONTAINER = "in a container: a seccomp profile that allows unshare and mount, and an unmasked /proc"


@dataclass(frozen=True)
class HostFacts:
    """Facts about this machine that bear on walls: kernel switches by name, as text, and what surrounds the process."""

    root: bool
    pod: bool = False
    container: bool = False
    filtered: bool = False
    switches: tuple[tuple[str, str], ...] = ()

    def switch(self, name: str) -> str:
        """Return the value of a sysctl; "" where this kernel has none of that name."""
        return dict(self.switches).get(name, "")


def read_host_facts() -> HostFacts:
    """Return the facts about the place that this process is in."""
    names = (USERS_LIMIT, USERS_SWITCH, APPARMOR)
    found = {name: read_text(f"/proc/sys/{name.replace('.', '/')}").strip() for name in names}
    return HostFacts(
        root=os.geteuid() == 0,
        pod="Kubernetes-managed" in read_text("/etc/hosts") or "kubepods" in read_text("/proc/self/cgroup"),
        container=any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv")),
        filtered="\nSeccomp:\t2" in read_text("/proc/self/status"),
        switches=tuple(found.items()),
    )


def read_text(path: str) -> str:
    """Return the content of a file; "" when it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def find_remedy(stage: str, code: int, place: HostFacts) -> str:
    """Return the remedy for a wall that failed at this stage with this error number, in this place."""
    if stage in ("namespaces", "user", "root file system") and (switch := find_closed_switch(code, place)):
        return switch
    if stage in ("namespaces", "user", "root file system") and code in REFUSED:
        return find_environment_remedy(place)
    if code in PATHS:
        return "the error names the path: that folder, or the one above it, is in the way"
    return {
        "namespaces": "a kernel with CONFIG_USER_NS and namespaces of every kind",
        "user": "a kernel with CONFIG_USER_NS",
        "root file system": "a kernel from 5.12 on (mount_setattr) with tmpfs and proc",
        "landlock": "a kernel from 5.13 on with 'landlock' in its lsm= list",
        "seccomp": "a kernel with CONFIG_SECCOMP_FILTER",
    }.get(stage, "see the error; walls and their order are in SECURITY.md")


def find_closed_switch(code: int, place: HostFacts) -> str:
    """Return how to set the sysctl that forbids user namespaces here; "" for none."""
    # The limit on user namespaces; kernels before 4.9 said EUSERS (clone(2)).
    if code in (errno.ENOSPC, errno.EUSERS):
        now = place.switch(USERS_LIMIT)
        return f"sysctl -w {USERS_LIMIT}=15000 (it is {now or 'unknown'}, or its namespaces are used up)"
    # Both switches below bind only users without privileges.
    if place.root or code not in REFUSED:
        return ""
    if place.switch(USERS_SWITCH) == "0":
        return f"sysctl -w {USERS_SWITCH}=1 (it is 0: only root may make user namespaces)"
    if place.switch(APPARMOR) not in ("", "0"):
        return (
            f"sysctl -w {APPARMOR}=0, or an AppArmor profile for this interpreter with 'userns,'"
            " (AppArmor takes all rights away in the user namespaces of programs without a profile)"
        )
    return ""


def find_environment_remedy(place: HostFacts) -> str:
    """Return what to change around the process when no kernel switch forbids the failed call."""
    if place.pod:
        return f"{IN_POD} RuntimeClass"
    if place.container:
        return CONTAINER
    if place.filtered:
        return "a seccomp filter is on this process already: start it without (e.g. systemd: RestrictNamespaces=no)"
    return "something outside forbids namespaces or mounts to this user (e.g. SELinux, a chroot, a restricted shell)"
