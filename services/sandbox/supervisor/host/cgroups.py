"""Control groups, one per session, which the supervisor makes where the system allows: limits kept by the kernel."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fathom.core.ids import new_id

V1_ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids")
# The kernel's default period of CPU bandwidth control.
CPU_PERIOD_US = 100_000
PREFIX = "fathom-jail-"


@dataclass(frozen=True)
class GroupLimits:
    """Limits of one session: bytes of memory, number of processes, and CPU cores."""

    memory_bytes: int
    processes: int
    cores: float


@dataclass(frozen=True)
class Group:
    """Folders of one session's control group: one with version 2, one per controller with version 1, CPU time last."""

    folders: tuple[Path, ...]
    version: int

    @property
    def procs(self) -> tuple[str, ...]:
        """Files into which a process id is written to join the group."""
        return tuple(str(folder / "cgroup.procs") for folder in self.folders)

    def limit(self, bounds: GroupLimits) -> None:
        """Set the limits; memory includes files of the session's own file systems. Raise ``OSError``."""
        # The kernel refuses quotas below a millisecond.
        quota_us = max(1_000, int(bounds.cores * CPU_PERIOD_US))
        if self.version == 2:
            folder = self.folders[0]
            write_value(folder / "memory.max", bounds.memory_bytes)
            write_value(folder / "pids.max", bounds.processes)
            # Swap would be memory beyond the limit; and when the kernel has to kill, it is to take the whole session,
            # not one process of it. Neither file exists on every kernel.
            for name, value in (("memory.swap.max", 0), ("memory.oom.group", 1)):
                with suppress(OSError):
                    write_value(folder / name, value)
            if (folder / "cpu.max").exists():
                write_value(folder / "cpu.max", f"{quota_us} {CPU_PERIOD_US}")
            return
        memory, pids, *cpu = self.folders
        write_value(memory / "memory.limit_in_bytes", bounds.memory_bytes)
        with suppress(OSError):  # counted only where the kernel accounts for swap
            write_value(memory / "memory.memsw.limit_in_bytes", bounds.memory_bytes)
        write_value(pids / "pids.max", bounds.processes)
        for folder in cpu:
            write_value(folder / "cpu.cfs_period_us", CPU_PERIOD_US)
            write_value(folder / "cpu.cfs_quota_us", quota_us)

    @property
    def has_weight(self) -> bool:
        """True when the kernel divides the processors by groups; not everywhere is that controller delegated."""
        return self._weight_file.exists()

    @property
    def _weight_file(self) -> Path:
        return self.folders[-1] / ("cpu.weight" if self.version == 2 else "cpu.shares")

    def weigh(self, weight: int) -> None:
        """Set the group's part of the CPU time that many want at once, where the kernel divides it; 100 is usual."""
        # Version 1 counts in shares, of which 1,024 are usual.
        with suppress(OSError):
            if self.has_weight:
                write_value(self._weight_file, weight if self.version == 2 else weight * 1024 // 100)

    def read_memory_bytes(self) -> int:
        """Return the memory of the group as the kernel counts it against the limit; 0 when the group is gone."""
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        try:
            return int((self.folders[0] / name).read_text())
        except (OSError, ValueError):
            return 0

    def oom_kills(self) -> int:
        """Return how many of the group's processes the kernel has killed for lack of memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        with suppress(OSError, ValueError):
            for line in (self.folders[0] / name).read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
        return 0

    def remove(self) -> bool:
        """Remove the group when no process is left in it; return False when it is still busy."""
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in self.folders)


class Cgroups:
    """Factory of control groups below the service's own.

    ``why_not`` says why none can be made, "" when they can. ``bounds_cpu`` is True when they limit CPU time too, a
    controller that is not delegated everywhere.
    """

    def __init__(self) -> None:
        self._version, self._bases, self.bounds_cpu, self.why_not = find_bases()
        self._busy: list[Group] = []
        if not self.why_not:
            self._remove_orphans()
            try:
                probe = self.create(GroupLimits(64 * 1024 * 1024, 8, 1.0))
                probe.remove()
            except OSError as error:
                self.why_not = f"{error.strerror or error} ({error.filename})"

    def create(self, bounds: GroupLimits) -> Group:
        """Return a new group with these limits; raise ``OSError``, and leave nothing then."""
        name = f"{PREFIX}{os.getpid()}-{new_id('jail')}"
        group = Group(tuple(base / name for base in self._bases), self._version)
        try:
            for folder in group.folders:
                folder.mkdir()
            group.limit(bounds)
        except OSError:
            group.remove()
            raise
        return group

    def remove(self, group: Group) -> None:
        """Remove a group, or leave it to ``sweep`` when its last process is not quite gone."""
        if not group.remove():
            self._busy.append(group)

    def sweep(self) -> None:
        """Remove the groups that were still busy, and those of supervisors that were killed."""
        # One by one, in the list itself: sessions that end meanwhile add theirs from other threads.
        for group in tuple(self._busy):
            if group.remove():
                self._busy.remove(group)
        self._remove_orphans()

    def list_groups(self) -> list[Path]:
        """Return the groups of sessions, of this service or of another, that exist now."""
        return [folder for base in self._bases for folder in base.glob(f"{PREFIX}*")]

    def _remove_orphans(self) -> None:
        """Remove the groups of supervisors that were killed."""
        for folder in self.list_groups():
            # Groups of a supervisor that is gone are empty: its sessions ended with it.
            owner = folder.name.removeprefix(PREFIX).partition("-")[0]
            if not Path(f"/proc/{owner}").exists():
                with suppress(OSError):
                    folder.rmdir()


def find_bases() -> tuple[int, tuple[Path, ...], bool, str]:
    """Return version, folders below which groups can be made, whether they limit CPU time, and why there are none."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    paths = {name: path for _, names, path in lines for name in (names.split(",") if names else [""])}
    if all(name in paths for name in CONTROLLERS):
        bases = tuple(V1_ROOT / name / paths[name].lstrip("/") for name in CONTROLLERS)
        cpu = V1_ROOT / "cpu" / paths.get("cpu", "/").lstrip("/")
        bounds_cpu = (cpu / "cpu.cfs_quota_us").exists() and os.access(cpu, os.W_OK)
        if all(os.access(base, os.W_OK) for base in bases):
            return 1, (*bases, cpu) if bounds_cpu else bases, bounds_cpu, ""
        return 1, (), False, "version 1 groups are not ours to write"
    base = V1_ROOT / paths.get("", "/").lstrip("/")
    control = base / "cgroup.subtree_control"
    if not control.exists() or not os.access(control, os.W_OK):
        return 2, (), False, "no delegated control group"
    # In two steps: one controller that is not delegated makes the whole write fail.
    for wanted in ("+memory +pids", "+cpu"):
        with suppress(OSError):
            write_value(control, wanted)
    given = set(control.read_text().split())
    if missing := set(CONTROLLERS) - given:
        return 2, (), False, f"control group {base} does not hand down {', '.join(sorted(missing))}"
    return 2, (base,), "cpu" in given, ""


def count_cores(memberships: str = "") -> int:
    """Return how many processors this process may use, one at least, by its affinity and its groups' quotas.

    ``memberships`` are its groups, as cgroups(7) has them in /proc; empty reads them there.
    """
    cores = float(len(os.sched_getaffinity(0)))
    for line in (memberships or Path("/proc/self/cgroup").read_text()).splitlines():
        _, names, path = line.split(":", 2)
        if names and "cpu" not in names.split(","):
            continue
        root = V1_ROOT / "cpu" if names else V1_ROOT
        # A container sees its own group as the root, under whatever path the host names it.
        folder = root / path.lstrip("/")
        for place in (folder, *folder.parents):
            if place.is_relative_to(root):
                cores = min(cores, read_quota(place))
    return max(1, int(cores))


def read_quota(folder: Path) -> float:
    """Return how many processors' time a group may use; infinity where nothing says so."""
    with suppress(OSError, ValueError):
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        # Without a limit version 1 says -1, and version 2 "max", which is no number.
        if int(quota) > 0:
            return int(quota) / int(period)
    return math.inf


def write_value(path: Path, value: object) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)
