"""Reading of /proc: shared by the cells of a moment, and rarer where it is expensive."""

from __future__ import annotations

import asyncio
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


async def test_the_loop_goes_on_while_many_processes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Process(pid, pid // 2, 1, 1, 0.0) for pid in range(1, 51)]
    monkeypatch.setattr(procfs, "list_processes", lambda: iter(many))
    now = 0.0

    def pass_processor_time() -> float:
        nonlocal now
        now += procfs.SLICE_S / 4
        return now

    monkeypatch.setattr("fathom.services.sandbox.supervisor.host.procfs.time.thread_time", pass_processor_time)
    monkeypatch.setattr(procfs, "SLICE_PAUSE_S", 0)
    turns, is_over = 0, False

    async def take_turns() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    snapshot = await procfs.take_snapshot()
    is_over = True
    await others
    # A look at the clock for each process and for each slice: four or five of them fit into one.
    assert turns >= 10
    assert len(snapshot.living) == 50
    assert [item.pid for item in snapshot.children[20]] == [40, 41]
    assert snapshot.cost_s >= 50 * procfs.SLICE_S / 4


async def test_an_expensive_reading_is_used_for_ten_times_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now, readings = 100.0, 0

    async def read() -> Snapshot:
        nonlocal readings
        readings += 1
        child = Process(2, 1, 1, readings, 0.0)
        return Snapshot({2: child}, {1: [child]}, cost_s=0.2)

    monkeypatch.setattr(procfs, "take_snapshot", read)
    monkeypatch.setattr("fathom.services.sandbox.supervisor.host.procfs.time.monotonic", lambda: now)
    reader = UsageReader()
    seen = [(await reader.usage(1, 0.0)).resident_bytes]
    for moment in (100.0 + FRESH_COSTS * 0.2, 100.1 + FRESH_COSTS * 0.2):
        now = moment
        seen.append((await reader.usage(1, 0.0)).resident_bytes)
    assert seen == [1, 1, 2]
    # A cell that begins now is not judged by what was read before.
    assert (await reader.usage(1, now + 1)).resident_bytes == 3
