"""Test who goes before whom on the processors: cells that compute for long run behind those that begin."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.services.sandbox.inside.jail import kernel
from fathom.services.sandbox.supervisor.host import procfs, scheduling
from fathom.services.sandbox.supervisor.host.cgroups import Group
from fathom.services.sandbox.supervisor.host.procfs import Process
from fathom.services.sandbox.supervisor.worker.cell_scheduler import CellScheduler
from fathom.services.sandbox.supervisor.worker.precedence import HALF_LIFE_S, USED_UP_S, Precedence
from tests.support.clock import Clock, simulate_time

# Linux takes requests for turns of a length from here on; before it they are ignored.
TAKES_TURNS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 12)


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Two processes of our own that do nothing."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    yield [process.pid for process in processes]
    for process in processes:
        process.communicate(b"\n")


def nice(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def read_turn_ns(pid: int) -> int:
    """Return the length of the turns that a process asks for."""
    found = scheduling.SchedulingAttributes()
    kernel.call("sched_getattr", pid, ctypes.byref(found), ctypes.sizeof(found), 0)
    return int(found.runtime)


def make_precedence(pid: int, weights: list[int] | None = None, *, is_reversible: bool = False) -> Precedence:
    group = None if weights is None else SimpleNamespace(weigh=weights.append, has_weight=True)
    return Precedence(pid, group, CellScheduler(1), pass_over, is_reversible=is_reversible)  # type: ignore[arg-type]


def pass_over(number: signal.Signals) -> None:
    """Signal nobody."""


def make_processes(leader: int, pids: Iterable[int], *, group: int = 0) -> list[Process]:
    """Return processes of a session, of the group of its worker or of another one."""
    return [Process(pid, leader, leader, 0, 0.0, group=group or leader) for pid in pids]


def test_a_long_cell_gives_way_until_its_end_and_a_training_for_good(pids: list[int]) -> None:
    weights: list[int] = []
    precedence = make_precedence(pids[0], weights)
    own = nice(pids[0])
    precedence.give_way_for_now()
    precedence.give_way_for_now()
    precedence.end()
    precedence.end()
    assert (weights, nice(pids[0])) == ([200, 20, 200], own)
    precedence.give_way()
    precedence.give_way_for_now()
    precedence.end()
    assert (weights, nice(pids[0])) == ([200, 20, 200, 10], min(19, own + 10))


def test_cells_of_trainings_hold_nobody_back(pids: list[int]) -> None:
    begun: list[int] = []
    scheduler = SimpleNamespace(begin=begun.append)
    precedence = Precedence(pids[0], None, scheduler, pass_over, is_reversible=False)  # type: ignore[arg-type]
    precedence.begin()
    assert begun == pids[:1]
    precedence.give_way()
    precedence.begin()
    assert begun == pids[:1]


@pytest.mark.skipif(not scheduling.may_lower_nice(), reason="this user cannot take back a nice value")
def test_without_a_group_nice_values_do_it(pids: list[int]) -> None:
    precedence = make_precedence(pids[0], is_reversible=True)
    own = nice(pids[0])
    precedence.give_way_for_now()
    assert nice(pids[0]) == min(19, own + 5)
    precedence.end()
    assert nice(pids[0]) == own


@pytest.mark.parametrize(("version", "name"), [(1, "cpu.shares"), (2, "cpu.weight")])
def test_a_group_without_weights_leaves_precedence_to_nice_values(
    pids: list[int], tmp_path: Path, version: int, name: str
) -> None:
    group = Group((tmp_path,), version)
    own = nice(pids[1])
    precedence = Precedence(pids[0], group, CellScheduler(1), pass_over, is_reversible=False)
    precedence.note_use(make_processes(pids[0], pids), 0.0)
    assert nice(pids[1]) == min(19, own + 5)
    (tmp_path / name).write_text("")
    Precedence(pids[0], group, CellScheduler(1), pass_over, is_reversible=False)
    # Twice the usual weight of each version.
    assert int((tmp_path / name).read_text()) == (2_048 if version == 1 else 200)


def test_where_nothing_can_be_taken_back_a_session_takes_turns_until_its_use_is_forgotten(pids: list[int]) -> None:
    calls: list[str] = []
    scheduler = SimpleNamespace(
        begin=lambda pid: calls.append("begin"), compute=lambda pid: calls.append("compute"), end=lambda pid: None,
        widen=lambda pid, processes: None,
    )  # fmt: skip
    clock, own = Clock(), nice(pids[0])
    precedence = Precedence(pids[0], None, scheduler, pass_over, is_reversible=False, clock=clock)  # type: ignore[arg-type]

    def run_cell(total_s: float) -> str:
        precedence.begin()
        precedence.note_use(make_processes(pids[0], pids[:1]), total_s)
        precedence.end()
        return calls.pop()

    # All that it has used since its start, at each look: the second second is one too much.
    assert [run_cell(USED_UP_S * share) for share in (0.5, 1.0, 1.5, 1.5)] == ["begin"] * 3 + ["compute"]
    clock.now += HALF_LIFE_S
    assert run_cell(1.5 * USED_UP_S) == "begin"
    # What is used over a long time is never much at once.
    for number in range(3):
        clock.now += 10 * HALF_LIFE_S
        assert run_cell((2 + number) * USED_UP_S) == "begin"
    assert nice(pids[0]) == own, "nothing that could not be taken back"


@simulate_time
async def test_what_has_left_the_group_of_a_worker_is_paused_by_the_session_and_continued_at_its_end() -> None:
    # Numbers that no process has.
    leader, child, other = range(2**22 + 1, 2**22 + 4)
    sent, all_sent = list[tuple[int, signal.Signals]](), list[signal.Signals]()
    scheduler = CellScheduler(1, lambda group, number: sent.append((group, number)))
    precedence = Precedence(leader, None, scheduler, all_sent.append, is_reversible=False)
    precedence.note_use(make_processes(leader, [leader, child]), 0.0)
    precedence.take_turns()
    scheduler.compute(other)
    scheduler.begin(0)
    assert (sent, all_sent) == ([(leader, signal.SIGSTOP)], [])
    # It is seen to have left while the cell is paused; further looks change nothing.
    for _ in range(2):
        precedence.note_use(make_processes(leader, [leader, child], group=child), 0.0)
    assert all_sent == [signal.SIGSTOP]
    precedence.end()
    assert (sent[1:], all_sent[1:]) == ([(leader, signal.SIGCONT)], [signal.SIGCONT])
    # The next cell has left nothing so far.
    precedence.take_turns()
    precedence.end()
    assert (len(sent), len(all_sent)) == (4, 2)


def test_what_a_cell_has_started_gets_less_the_more_of_it_there_is(pids: list[int]) -> None:
    own = nice(pids[1])
    weights: list[int] = []
    make_precedence(pids[0], weights).note_use(make_processes(pids[0], pids), 0.0)
    assert (weights, nice(pids[1])) == ([200, 20], own)
    precedence = make_precedence(pids[0])
    precedence.note_use(make_processes(pids[0], pids), 0.0)
    assert nice(pids[1]) == min(19, own + 5)
    # As many as a fork bomb's, though all but one have ended: a pid that is nobody's is passed over.
    precedence = make_precedence(pids[0])
    precedence.note_use(make_processes(pids[0], [*pids, *range(2**22, 2**22 + 60)]), 0.0)
    assert nice(pids[1]) == 19


@pytest.mark.skipif(not TAKES_TURNS, reason="before Linux 6.12 nobody can ask for turns of a length")
def test_a_worker_asks_for_short_turns_unless_it_computes_for_long(pids: list[int]) -> None:
    precedence = make_precedence(pids[0], [])
    assert read_turn_ns(pids[0]) == scheduling.SHORT_TURN_NS
    precedence.give_way_for_now()
    assert read_turn_ns(pids[0]) == scheduling.LONG_TURN_NS
    precedence.end()
    assert read_turn_ns(pids[0]) == scheduling.SHORT_TURN_NS


@pytest.mark.skipif(not TAKES_TURNS, reason="before Linux 6.12 nobody can ask for turns of a length")
def test_what_goes_first_starts_things_that_do_not() -> None:
    found: list[tuple[int, int]] = []

    def read_child() -> None:
        scheduling.go_first()
        # A thread of ours has asked; the process that it starts has neither the turns nor the nice value.
        code = "import os, sys; sys.stdout.write(str(os.nice(0)))"
        started = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        found.append((read_turn_ns(0), int(started.stdout)))

    own = nice(0)
    thread = threading.Thread(target=read_child)
    thread.start()
    thread.join()
    ((turn_ns, of_child),) = found
    assert turn_ns == scheduling.SHORT_TURN_NS
    assert of_child >= min(own, 0)
    assert nice(0) == own


def test_nothing_is_asked_of_a_process_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    precedence = make_precedence(process.pid, is_reversible=True)
    precedence.give_way_for_now()
    precedence.note_use(make_processes(process.pid, [process.pid, process.pid + 2**22]), 2 * USED_UP_S)
    precedence.end()
    assert procfs.read_cpu_s(process.pid) == 0.0


def test_processor_time_is_that_of_all_threads_of_a_process() -> None:
    def compute() -> None:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass

    before = procfs.read_cpu_s(os.getpid())
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert procfs.read_cpu_s(os.getpid()) - before >= 0.01
