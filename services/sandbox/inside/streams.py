"""Output of a cell, to which threads that earlier cells have left running cannot write."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any

THREADS = "/proc/self/task"


class OutputGate:
    """Gate of the running cell: open while it runs, and then only to threads that have begun with it.

    What is displayed is sent under ``lock``, so that nothing is sent any more once ``close`` has returned.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._is_open = True
        self._strangers: frozenset[int] = frozenset()

    def open(self) -> None:
        """Begin a cell: whatever other threads there are belong to earlier ones."""
        # Not by Python's own list: it does not have those of ``_thread``, and its ids are used again.
        self._strangers = frozenset(map(int, os.listdir(THREADS))) - {threading.get_native_id()}
        self._is_open = True

    def close(self) -> None:
        """End the cell; do nothing the second time."""
        with self.lock:
            self._is_open = False

    def is_open_here(self) -> bool:
        """Return whether the calling thread may write."""
        return self._is_open and not (self._strangers and threading.get_native_id() in self._strangers)


class CellOutput(io.TextIOWrapper):
    """Text stream over one of the worker's pipes, which drops what the gate does not let through."""

    def __init__(self, descriptor: int, gate: OutputGate) -> None:
        # Buffered by line, so that output keeps its order with that of child processes.
        raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115 - it lives as long as the cell
        super().__init__(raw, encoding="utf-8", errors="replace", line_buffering=True)
        self._gate = gate

    def write(self, text: str) -> int:
        return super().write(text) if self._gate.is_open_here() else len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)


def open_streams(gate: OutputGate) -> None:
    """Replace stdout and stderr by new streams over the pipes, whatever the last cell has done to its own."""
    sys.stdout, sys.stderr = CellOutput(1, gate), CellOutput(2, gate)
