"""A cell that displays much waits between its displays, so that the supervisor has time for others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.services.sandbox.config import Config
from fathom.services.sandbox.ipc.frames import JSON, MAX_DISPLAYS, FrameKind
from fathom.services.sandbox.supervisor import cell as cell_module
from fathom.services.sandbox.supervisor.cell import DISPLAY_PAUSE_S, LARGE_DISPLAY_BYTES, Cell
from fathom.services.sandbox.supervisor.events import Display, Event
from fathom.services.sandbox.supervisor.host.procfs import UsageReader
from fathom.services.sandbox.supervisor.worker.process import Frame


class Worker:
    """Worker that answers every cell with displays of one size."""

    def __init__(self, size: int, count: int) -> None:
        frames = [Frame(FrameKind.DISPLAY, (JSON,), b"x" * size)] * count
        self._frames = [*frames, Frame(FrameKind.RESULT, ("",) * 4)]
        self.stdout = self.stderr = SimpleNamespace(drain=lambda: None)

    async def send(self, message: dict[str, Any]) -> None:
        """Take the cell."""

    async def receive(self, nonce: str) -> Frame:
        return self._frames.pop(0)


async def find_pauses(monkeypatch: pytest.MonkeyPatch, size: int, count: int) -> list[float]:
    """Return the pauses of a cell with so many displays; all of them are shown."""
    pauses: list[float] = []
    shown: list[Event] = []

    async def note(pause_s: float) -> None:
        pauses.append(pause_s)

    emit: Callable[[Event], None] = shown.append
    cell = Cell(Worker(size, count), Config(), UsageReader(), 1, emit)  # type: ignore[arg-type]
    monkeypatch.setattr(cell_module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": note}))
    await cell._ask("")
    assert [isinstance(event, Display) for event in shown] == [True] * count
    return pauses


async def test_each_large_display_waits_longer_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = await find_pauses(monkeypatch, LARGE_DISPLAY_BYTES + 1, MAX_DISPLAYS)
    assert pauses == [number * DISPLAY_PAUSE_S for number in range(MAX_DISPLAYS)]
    assert sum(pauses) < 0.5


async def test_small_ones_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await find_pauses(monkeypatch, LARGE_DISPLAY_BYTES, MAX_DISPLAYS) == []
