"""Memory of sessions without a control group: a process is read again when it can hold more than before."""

from __future__ import annotations

import os
from dataclasses import replace

from fathom.services.sandbox.supervisor.host import procfs
from fathom.services.sandbox.supervisor.host.memory import MemoryGauge
from fathom.services.sandbox.supervisor.host.procfs import Process, Usage

WORKER = Process(pid=1, parent=0, session=1, resident_bytes=300, cpu_s=0.0, faults=7, started=1)
CHILD = replace(WORKER, pid=2, resident_bytes=200, started=2)


class Pss:
    """PSS by process, and the numbers of those that were read."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = {int(name[1:]): size for name, size in sizes.items()}
        self.read_pids: list[int] = []

    async def read(self, pid: int) -> int:
        self.read_pids.append(pid)
        return self.sizes[pid]


def use(*processes: Process) -> Usage:
    return Usage(sum(process.resident_bytes for process in processes), 0.0, list(processes))


async def test_resident_bytes_within_the_limit_are_the_answer() -> None:
    pss = Pss()
    assert await MemoryGauge().measure(use(WORKER), 300, pss.read) == 300
    assert pss.read_pids == []


async def test_a_process_that_only_computes_is_read_once_and_one_that_faults_again() -> None:
    gauge, pss = MemoryGauge(), Pss(p1=150, p2=50)
    assert await gauge.measure(use(CHILD, WORKER), 400, pss.read) == 200
    computing = replace(CHILD, cpu_s=9.0)
    assert await gauge.measure(use(computing, WORKER), 400, pss.read) == 200
    assert pss.read_pids == [1, 2]
    pss.sizes[2] = 180
    assert await gauge.measure(use(replace(computing, faults=8), WORKER), 400, pss.read) == 330
    assert pss.read_pids == [1, 2, 2]


async def test_all_are_read_again_when_one_has_ended_or_its_number_is_anothers() -> None:
    gauge, pss = MemoryGauge(), Pss(p1=150, p2=50)
    await gauge.measure(use(WORKER, CHILD), 400, pss.read)
    # What the child shared is the worker's alone now.
    pss.sizes[1] = 290
    assert await gauge.measure(use(WORKER), 250, pss.read) == 290
    assert await gauge.measure(use(replace(WORKER, started=9)), 250, pss.read) == 290
    assert pss.read_pids == [1, 2, 1, 1]


async def test_no_more_is_read_than_shows_that_it_is_too_much() -> None:
    pss = Pss(p1=450)
    assert await MemoryGauge().measure(use(CHILD, replace(WORKER, resident_bytes=500)), 400, pss.read) == 450
    assert pss.read_pids == [1]


async def test_a_page_that_is_touched_for_the_first_time_is_a_fault() -> None:
    before = procfs.read_process(os.getpid())
    block = bytearray(b"x") * (8 << 20)
    after = procfs.read_process(os.getpid())
    assert before is not None
    assert after is not None
    assert len(block) == 8 << 20
    assert (after.faults > before.faults, after.started) == (True, before.started)
    assert procfs.read_pss_bytes(os.getpid()) > 8 << 20
    assert procfs.read_pss_bytes(2**22 + 1) == 0
