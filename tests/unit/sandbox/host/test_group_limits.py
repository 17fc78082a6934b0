"""Limits of control groups in both versions, in folders that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path

from fathom.services.sandbox.supervisor.host.cgroups import Group, GroupLimits

LIMITS = GroupLimits(memory_bytes=400 << 20, processes=24, cores=1.5)


def make_files(folder: Path, *names: str) -> None:
    folder.mkdir()
    for name in names:
        (folder / name).touch()


def read_files(*folders: Path) -> dict[str, str]:
    """Return what stands in each file that something was written into."""
    return {path.name: path.read_text() for folder in folders for path in folder.iterdir() if path.read_text()}


def test_version_2_has_one_folder_for_all(tmp_path: Path) -> None:
    group, folder = Group((tmp_path / "session",), 2), tmp_path / "session"
    make_files(folder, "memory.max", "pids.max", "memory.swap.max", "memory.oom.group", "cpu.max")
    group.limit(LIMITS)
    # When the kernel has to kill, it takes the whole session; without swap nothing is beyond the limit.
    assert read_files(folder) == {
        "memory.max": "419430400",
        "pids.max": "24",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
    }
    (folder / "memory.current").write_text("12345\n")
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert (group.read_memory_bytes(), group.oom_kills()) == (12_345, 2)


def test_version_2_without_processors_or_swap_bounds_memory_and_processes(tmp_path: Path) -> None:
    group, folder = Group((tmp_path / "session",), 2), tmp_path / "session"
    make_files(folder, "memory.max", "pids.max")
    group.limit(LIMITS)
    assert read_files(folder) == {"memory.max": "419430400", "pids.max": "24"}
    # Nothing to read is nothing used, as after the end of a session.
    assert (group.read_memory_bytes(), group.oom_kills()) == (0, 0)


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    memory, pids, cpu = folders = tuple(tmp_path / name for name in ("memory", "pids", "cpu"))
    make_files(memory, "memory.limit_in_bytes")
    make_files(pids, "pids.max")
    make_files(cpu, "cpu.cfs_period_us", "cpu.cfs_quota_us")
    group = Group(folders, 1)
    group.limit(LIMITS)
    assert read_files(*folders) == {
        "memory.limit_in_bytes": "419430400",
        "pids.max": "24",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
    }
    (memory / "memory.usage_in_bytes").write_text("12345\n")
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert (group.read_memory_bytes(), group.oom_kills()) == (12_345, 1)
