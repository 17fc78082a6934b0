"""Precedence of a session's processes on the processors: cells that have just begun go before those that compute.

Where the session has a control group, its weight says so; nice values do otherwise, and in both cases the length of the
turns that the worker asks for, which decides how soon a thread that wakes gets one.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Sequence

from fathom.services.sandbox.supervisor.host.cgroups import Group
from fathom.services.sandbox.supervisor.host.procfs import Process
from fathom.services.sandbox.supervisor.host.scheduling import (
    LAST_NICE,
    LONG_TURN_NS,
    SHORT_TURN_NS,
    ask_for_turns,
    list_threads,
    read_nice,
    set_nice,
)
from fathom.services.sandbox.supervisor.worker.cell_scheduler import CellScheduler

# Cells of trainings: a tenth of the time of a person's that wants the same processor, by the kernel's table of nice
# values (1.25 to the power of ten), and the same as a weight of the control group, of which 100 is usual.
BACKGROUND_NICE, BACKGROUND_WEIGHT = 10, 10
# A tenth of the weight of cells that begin. Both are of the size of the supervisor's own, which has none to give and
# must not stand behind eight cells that compute: with ten times as much, neighbours waited ten times as long on an idle
# machine. Less than a fifth of the usual weight starves long cells where others fill the machine.
COMPUTING_NICE, COMPUTING_WEIGHT, BEGINNING_WEIGHT = 5, 20, 200
NICE_STEP = 1.25
# Processor time of late with which a session stays behind where nice values cannot be taken back: thousands of usual
# cells. Half a minute at full speed is forgotten in as long.
USED_UP_S, HALF_LIFE_S = 1.0, 10.0


class RecentUse:
    """Processor time of a session, half of which is forgotten every ``HALF_LIFE_S`` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._noted_at = clock, clock()
        self._total_s = self._recent_s = 0.0

    def note(self, total_s: float) -> None:
        """Consider what the session has used since its start."""
        self._recent_s, self._noted_at = self.read() + max(0.0, total_s - self._total_s), self._clock()
        # Less than before is that of processes which have ended and are still to be waited for.
        self._total_s = max(total_s, self._total_s)

    def read(self) -> float:
        """Return what is not forgotten, in seconds."""
        return self._recent_s * math.pow(0.5, (self._clock() - self._noted_at) / HALF_LIFE_S)


class Precedence:
    """Precedence of the worker ``pid`` and of what it has started.

    ``signal_all`` reaches those that have left its process group; ``is_reversible`` says if nice values are.
    """

    def __init__(
        self,
        pid: int,
        group: Group | None,
        scheduler: CellScheduler,
        signal_all: Callable[[signal.Signals], None],
        *,
        is_reversible: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # A group that bounds memory and processes alone says nothing about precedence.
        self._group = group if group is not None and group.has_weight else None
        self._pid, self._scheduler, self._signal_all, self._is_reversible = pid, scheduler, signal_all, is_reversible
        self._is_background = self._is_behind = False
        self._recent = RecentUse(clock)
        self._nice, self._seen = read_nice(pid), frozenset[int]()
        ask_for_turns(pid, SHORT_TURN_NS)
        if self._group is not None:
            self._group.weigh(BEGINNING_WEIGHT)

    def give_way(self) -> None:
        """Let the worker, and what it starts from now on, run when others of this machine leave time."""
        self._is_background = True
        if self._group is not None:
            self._group.weigh(BACKGROUND_WEIGHT)
        self._step_back(BACKGROUND_NICE)
        ask_for_turns(self._pid, LONG_TURN_NS)

    def begin(self) -> None:
        """Begin a cell: while it is new, those that compute leave it a processor, unless it gives way to all.

        Where nice values cannot be taken back, a session that has used much of late takes turns from the beginning.
        """
        if self._is_background:
            return
        if self._group is None and not self._is_reversible and self._recent.read() > USED_UP_S:
            self.give_way_for_now()
            self.take_turns()
        else:
            self._scheduler.begin(self._pid)

    def take_turns(self) -> None:
        """Let the cell, which computes for long, go on in turns while others begin."""
        self._scheduler.compute(self._pid)

    def go_on(self) -> None:
        """Let the cell run to its end without turns, so that it hears an interrupt."""
        self._scheduler.exempt(self._pid)

    def give_way_for_now(self) -> None:
        """Let the worker run behind others until ``end``."""
        if self._is_behind or self._is_background:
            return
        self._is_behind = True
        ask_for_turns(self._pid, LONG_TURN_NS)
        if self._group is not None:
            self._group.weigh(COMPUTING_WEIGHT)
        elif self._is_reversible:
            self._step_back(COMPUTING_NICE)

    def note_use(self, processes: Sequence[Process], cpu_s: float) -> None:
        """Consider the session's processes, and the processor time that they have used, as the watch has seen them."""
        self._recent.note(cpu_s)
        started = [process.pid for process in processes if process.pid != self._pid]
        if started:
            self.give_way_for_now()
        if any(process.group != self._pid for process in processes):
            self._scheduler.reach(self._pid, self._signal_all)
        self._scheduler.widen(self._pid, max(1, len(started)))
        if self._group is not None:
            return
        # Together they get no more than one cell that computes; what they start inherits it.
        nice = self._nice + COMPUTING_NICE + math.ceil(math.log(max(1, len(started)), NICE_STEP))
        for pid in started:
            if pid not in self._seen:
                set_nice(list_threads(pid), min(nice, LAST_NICE))
        self._seen = frozenset(started)

    def end(self) -> None:
        """End a cell: undo ``give_way_for_now`` and ``take_turns``."""
        self._scheduler.end(self._pid)
        if not self._is_behind or self._is_background:
            return
        self._is_behind = False
        if self._group is not None:
            self._group.weigh(BEGINNING_WEIGHT)
        elif self._is_reversible:
            self._step_back(0)
        ask_for_turns(self._pid, SHORT_TURN_NS)

    def _step_back(self, steps: int) -> None:
        """Put the worker so many nice values behind its first one."""
        # Each thread has its own, which those that it starts inherit.
        set_nice(list_threads(self._pid), min(self._nice + steps, LAST_NICE))
