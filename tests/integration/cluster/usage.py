"""Measure what the processes of a pod use of memory and processors, as the kernel counts it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.cluster.container import children

TICKS = os.sysconf("SC_CLK_TCK")
UNITS = {"Mi": 1.0, "Gi": 1024.0}


@dataclass(frozen=True)
class Usage:
    """Memory that would be freed if the pod ended, and processor time since its start, ended children included."""

    memory_mib: float
    processor_s: float
    processes: int


def walk(pid: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield pid
    for child in children(pid):
        yield from walk(child)


def measure(pid: int) -> Usage:
    """Add up the processes of a pod; one that ends meanwhile is left out."""
    memory_kib, ticks, count = 0, 0, 0
    for found in list(walk(pid)):
        # Pages that are shared, such as those of a fork server's children, are counted by their share.
        try:
            rollup = Path(f"/proc/{found}/smaps_rollup").read_text()
            stat = Path(f"/proc/{found}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Anonymous and shared pages that are this pod's own, by their share; files of the image can be dropped.
        memory_kib += sum(int(size) for size in re.findall(r"^(?:Pss_Anon|Pss_Shmem):\s+(\d+)", rollup, re.MULTILINE))
        # utime, stime, and those of children that have ended.
        ticks += sum(int(value) for value in stat[11:15])
        count += 1
    return Usage(memory_kib / 1024, ticks / TICKS, count)


def read_mib(quantity: str) -> float:
    """Return a quantity of memory of a manifest in MiB."""
    return float(quantity[:-2]) * UNITS[quantity[-2:]]
