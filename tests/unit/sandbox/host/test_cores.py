"""Test how many processors a service may use: by its affinity, and by quotas of control groups, as pods have them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from fathom.services.sandbox.supervisor.host import cgroups


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of /sys/fs/cgroup; there are 64 processors."""
    monkeypatch.setattr(cgroups, "V1_ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    return tmp_path


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "400000 100000\n"}, 4.0),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"}, 1.5),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, math.inf),
        ({}, math.inf),
    ],
)
def test_a_quota_is_read_in_both_versions(tmp_path: Path, files: dict[str, str], cores: float) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cgroups.read_quota(tmp_path) == cores


@pytest.mark.parametrize(
    ("line", "place", "quota", "cores"),
    [
        # A container of version 2 sees its own group as the root.
        ("0::/\n", "cpu.max", "400000 100000", 4),
        # On the host the quota may be that of a group above.
        ("0::/pod/session\n", "pod/cpu.max", "250000 100000", 2),
        ("0::/pod\n", "pod/cpu.max", "50000 100000", 1),
        # In version 1 the path is the host's and the mount the container's.
        ("4:cpu,cpuacct:/kubepods/pod\n", "cpu/cpu.cfs_quota_us", "300000", 3),
        # Quotas are the affair of one controller.
        ("8:pids:/pod\n0::/\n", "pids/pod/cpu.max", "100000 100000", 64),
    ],
)
def test_processors_are_counted_by_the_tightest_quota(
    root: Path, line: str, place: str, quota: str, cores: int
) -> None:
    file = root / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(quota)
    (root / "cpu").mkdir(exist_ok=True)
    (root / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert cgroups.count_cores(line) == cores


def test_this_machine_has_a_processor_for_us() -> None:
    assert 1 <= cgroups.count_cores() <= len(os.sched_getaffinity(0))
