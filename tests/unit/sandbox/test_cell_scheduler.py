"""Turns of cells that compute: while one has just begun they leave it a processor, and none of them waits for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fathom.services.sandbox.supervisor.host.resting import read_state
from fathom.services.sandbox.supervisor.worker.cell_scheduler import (
    HOLD_S,
    LINGER_S,
    PATIENCE_S,
    TURN_S,
    CellScheduler,
    signal_group,
)
from tests.support.clock import pass_time, simulate_time
from tests.support.waiting import eventually

# As soon as it is forked the child says so, and both compute.
SPINNING = """
import os
if os.fork() == 0: print("begun", os.getpid(), flush=True)
while True: pass
"""


class Signals:
    """The groups that are paused, by the signals that they were sent."""

    def __init__(self) -> None:
        self.paused: set[int] = set()

    def send(self, group: int, number: signal.Signals) -> None:
        # Neither twice: each is a system call with the processes' end of it.
        assert (group in self.paused) is (number is signal.SIGCONT)
        self.paused ^= {group}


def make_scheduler(cores: int, computing: int) -> tuple[CellScheduler, set[int]]:
    """Return a scheduler with cells that compute, numbered from 1, and the set of those that it has paused."""
    signals = Signals()
    scheduler = CellScheduler(cores, signals.send)
    for group in range(1, computing + 1):
        scheduler.compute(group)
    return scheduler, signals.paused


async def watch_holds(scheduler: CellScheduler, paused: set[int], seconds: float) -> list[set[int]]:
    """Begin one cell after the other, and return which of three that compute went on in each half of a turn."""
    went_on = []
    for _ in range(round(2 * seconds / TURN_S)):
        scheduler.begin(100)
        await pass_time(TURN_S / 2)
        went_on.append({1, 2, 3} - paused)
    return went_on


@simulate_time
async def test_all_compute_until_another_cell_begins_and_again_soon_after_its_end() -> None:
    scheduler, paused = make_scheduler(cores=4, computing=8)
    assert not paused
    scheduler.begin(100)
    assert len(paused) == 5
    scheduler.end(100)
    # The next cell of the same caller follows at once, in most cases.
    assert len(paused) == 5
    await pass_time(2 * LINGER_S)
    assert not paused


@simulate_time
async def test_fewer_than_there_are_processors_are_left_alone() -> None:
    scheduler, paused = make_scheduler(cores=4, computing=3)
    scheduler.begin(100)
    assert not paused
    scheduler.compute(4)
    assert len(paused) == 1


@simulate_time
async def test_with_one_processor_one_goes_on() -> None:
    scheduler, paused = make_scheduler(cores=1, computing=3)
    scheduler.begin(100)
    assert len(paused) == 2


@simulate_time
async def test_a_cell_that_waits_for_something_holds_nobody_back_for_long() -> None:
    scheduler, paused = make_scheduler(cores=2, computing=3)
    scheduler.begin(100)
    await pass_time(2 * HOLD_S)
    assert not paused
    # It has become one of those that compute, and holds nobody back at its end.
    scheduler.compute(100)
    scheduler.end(100)
    assert not paused


@simulate_time
async def test_each_has_its_turn_while_others_begin_without_end() -> None:
    scheduler, paused = make_scheduler(cores=2, computing=3)
    went_on = await watch_holds(scheduler, paused, 12 * TURN_S)
    assert all(len(groups) == 1 for groups in went_on)
    assert {went_on.count({group}) for group in (1, 2, 3)} == {len(went_on) // 3}


@simulate_time
async def test_each_has_its_turn_where_cells_are_short_and_far_between() -> None:
    scheduler, paused = make_scheduler(cores=2, computing=3)
    went_on = []
    for _ in range(6):
        scheduler.begin(100)
        went_on += sorted({1, 2, 3} - paused)
        scheduler.end(100)
        await pass_time(2 * LINGER_S)
    assert {went_on.count(group) for group in (1, 2, 3)} == {2}


@simulate_time
async def test_a_cell_takes_as_many_places_as_it_has_processes() -> None:
    scheduler, paused = make_scheduler(cores=4, computing=3)
    scheduler.widen(1, 2)
    scheduler.widen(2, 8)
    scheduler.begin(100)
    assert paused == {2}
    scheduler.widen(3, 2)
    assert len(paused) == 2
    scheduler.widen(3, 1)
    assert paused == {2}


@simulate_time
async def test_a_cell_with_too_many_processes_goes_on_alone_now_and_then() -> None:
    scheduler, paused = make_scheduler(cores=2, computing=3)
    scheduler.widen(1, 8)
    scheduler.widen(2, 8)
    went_on = await watch_holds(scheduler, paused, 3 * PATIENCE_S)
    assert 0 < went_on.count({1}) + went_on.count({2}) < went_on.count({3}) / 3
    assert abs(went_on.count({1}) - went_on.count({2})) <= 2
    # Its turn is a whole one, whatever else begins and ends meanwhile.
    while 1 in paused:
        await watch_holds(scheduler, paused, TURN_S / 2)
    scheduler.begin(101)
    scheduler.end(101)
    assert paused == {2, 3}


@simulate_time
async def test_what_is_to_be_interrupted_or_has_ended_goes_on() -> None:
    scheduler, paused = make_scheduler(cores=2, computing=3)
    scheduler.begin(100)
    first, second = sorted(paused)
    scheduler.exempt(first)
    assert paused == {second}
    await pass_time(TURN_S)
    assert first not in paused
    scheduler.begin(100)
    scheduler.end(first)
    scheduler.end(second)
    assert not paused


@pytest.fixture
def spinning() -> Iterator[tuple[int, int]]:
    """A process that computes, leader of a group, and its child."""
    command = (sys.executable, "-c", SPINNING)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline().split()[1])
        os.killpg(process.pid, signal.SIGKILL)


async def test_a_group_is_paused_with_its_children_and_continued(spinning: tuple[int, int]) -> None:
    signal_group(spinning[0], signal.SIGSTOP)
    await eventually(lambda: {read_state(pid) for pid in spinning} == {b"T"})
    signal_group(spinning[0], signal.SIGCONT)
    await eventually(lambda: b"T" not in {read_state(pid) for pid in spinning})


def test_nothing_is_sent_to_our_own_group_or_to_what_has_ended() -> None:
    # What was sent here would end the test.
    signal_group(0, signal.SIGKILL)
    with subprocess.Popen([sys.executable, "-c", ""], process_group=0) as process:
        process.wait()
    signal_group(process.pid, signal.SIGKILL)
    assert process.returncode == 0
