"""Reading of /proc: shared by the cells of a moment, and rarer where it is expensive."""

from __future__ import annotations

import os

import pytest

from fathom.services.sandbox.supervisor.host import procfs
from fathom.services.sandbox.supervisor.host.procfs import FRESH_COSTS, Process, Snapshot, UsageReader


def test_a_process_is_read_with_its_parent_and_memory() -> None:
    found = procfs.read_process(os.getpid())
    assert found is not None
    assert (found.pid, found.parent, found.session) == (os.getpid(), os.getppid(), os.getsid(0))
    assert found.resident_bytes > 10 << 20
    assert procfs.read_process("no process") is None


async def test_an_expensive_reading_is_used_for_ten_times_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now, readings = 100.0, 0

    def read() -> Snapshot:
        nonlocal readings
        readings += 1
        child = Process(2, 1, 1, readings, 0.0)
        return Snapshot({2: child}, {1: [child]}, cost_s=0.2)

    monkeypatch.setattr(procfs, "read_snapshot", read)
    monkeypatch.setattr(procfs.time, "monotonic", lambda: now)
    reader = UsageReader()
    seen = [(await reader.usage(1, 0.0)).resident_bytes]
    for moment in (100.0 + FRESH_COSTS * 0.2, 100.1 + FRESH_COSTS * 0.2):
        now = moment
        seen.append((await reader.usage(1, 0.0)).resident_bytes)
    assert seen == [1, 1, 2]
    # A cell that begins now is not judged by what was read before.
    assert (await reader.usage(1, now + 1)).resident_bytes == 3
