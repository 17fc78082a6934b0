"""Scheduler of cells: while one has just begun, few of those that compute for long go on, and these in turns.

The kernel divides the processors among all that want one, so that a cell that needs milliseconds waits for its part
beside eight that compute. These are paused instead, which takes no privilege and can be taken back, unlike a nice
value.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress

# How long a cell that has just begun keeps others waiting: one that sleeps must not do so for ever.
HOLD_S = 0.2
# Cells of one caller follow each other in milliseconds: to pause and continue around each would cost too much.
LINGER_S = 0.02
# Turn of a cell that computes: short beside its limit of half a minute, long beside the cost of pausing.
TURN_S = 0.2
# A cell with more processes than there are places for goes on alone after so long a pause.
PATIENCE_S = 2.0
# Name of a session that is being opened, which has no process group yet.
OPENING = 0


class CellScheduler:
    """Scheduler of the running cells of all sessions, each named by the process group of its worker.

    All processors but one are for the processes of cells that compute, as long as others hold them back; where there is
    one processor, one such process goes on.
    """

    def __init__(self, cores: int, send: Callable[[int, signal.Signals], None] | None = None) -> None:
        """Create for so many processors; ``send`` signals a process group."""
        self._places = max(1, cores - 1)
        self._send = send or signal_group
        self._holds: dict[int, asyncio.TimerHandle] = {}
        self._computing: deque[int] = deque()
        self._widths: dict[int, int] = {}
        self._paused: dict[int, float] = {}
        self._beyond: dict[int, Callable[[signal.Signals], None]] = {}
        self._overdue = -1
        self._turn: asyncio.TimerHandle | None = None

    def begin(self, group: int) -> None:
        """Note a cell that begins: it holds back those that compute."""
        self._hold(group, HOLD_S)

    def compute(self, group: int) -> None:
        """Note that a cell computes for long: it may be held back from now on."""
        self._release_hold(group)
        if group not in self._computing:
            self._computing.append(group)
        self._update()

    def widen(self, group: int, processes: int) -> None:
        """Note how many processes a cell that computes has."""
        if group in self._computing and self._widths.get(group) != processes:
            self._widths[group] = processes
            self._update()

    def reach(self, group: int, send_to_all: Callable[[signal.Signals], None]) -> None:
        """Pause a cell by ``send_to_all`` too until its end, because some of its processes have left its group."""
        if group not in self._beyond:
            self._beyond[group] = send_to_all
            if group in self._paused:
                send_to_all(signal.SIGSTOP)

    def exempt(self, group: int) -> None:
        """Let a cell go on until its end, because it is to be interrupted: what is paused hears nothing."""
        if group in self._computing:
            self._computing.remove(group)
            self._widths.pop(group, None)
            self._resume(group)
            self._update()

    def end(self, group: int) -> None:
        """Note the end of a cell; whatever it has left running goes on."""
        self.exempt(group)
        self._beyond.pop(group, None)
        if group in self._holds:
            self._hold(group, LINGER_S)

    def _hold(self, group: int, seconds: float) -> None:
        is_first = not self._holds
        if group in self._holds:
            self._holds.pop(group).cancel()
        self._holds[group] = asyncio.get_running_loop().call_later(seconds, self._expire, group)
        if is_first:
            # Another one each time, or many short cells would let the same one go on.
            self._computing.rotate(-self._places)
            self._update()

    def _release_hold(self, group: int) -> None:
        if group in self._holds:
            self._holds.pop(group).cancel()

    def _expire(self, group: int) -> None:
        del self._holds[group]
        self._update()

    def _rotate(self) -> None:
        self._turn = None
        longest = min(self._paused, key=self._paused.__getitem__, default=-1)
        is_due = longest >= 0 and asyncio.get_running_loop().time() - self._paused[longest] >= PATIENCE_S
        self._overdue = longest if is_due else -1
        self._computing.rotate(-self._places)
        self._update()

    def _choose(self) -> set[int]:
        """Return the cells that go on while others hold back those that compute."""
        if self._overdue in self._computing:
            return {self._overdue}
        chosen, places = set(), self._places
        for group in self._computing:
            width = self._widths.get(group, 1)
            if width <= places:
                chosen.add(group)
                places -= width
        return chosen

    def _update(self) -> None:
        """Pause and continue what is to be, and come back for the next turn."""
        chosen = self._choose() if self._holds else set(self._computing)
        loop = asyncio.get_running_loop()
        # First what gives a processor back.
        for group in self._computing:
            if group not in chosen and group not in self._paused:
                self._paused[group] = loop.time()
                self._signal(group, signal.SIGSTOP)
        for group in chosen:
            self._resume(group)
        if self._paused and self._turn is None:
            self._turn = loop.call_later(TURN_S, self._rotate)
        elif not self._paused and self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _resume(self, group: int) -> None:
        if self._paused.pop(group, None) is not None:
            self._signal(group, signal.SIGCONT)

    def _signal(self, group: int, number: signal.Signals) -> None:
        self._send(group, number)
        if group in self._beyond:
            self._beyond[group](number)


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a worker and its process group; do nothing when they have ended or may not be signalled."""
    # Zero would be our own group, and one everybody's.
    if group <= 1:
        return
    # The worker itself, too, which may have left its group.
    for send in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            send(group, number)
