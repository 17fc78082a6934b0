"""``python -m tests.bench.bombs.door DOOR FOLDER``: gives one door each file of a folder, and prints what that took.

A line of JSON per file: its name, the peak of memory above what was there before, and what became of it. The folder's
files are named by their position in ``BOMBS``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.bench.bombs.doors import DOORS, try_door
from tests.bench.bombs.files import BOMBS

LOOK_S = 0.005


def read_kilobytes(pid: int, name: str) -> int:
    """Return a figure of a process's memory in kilobytes; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def list_tree(pid: int) -> list[int]:
    """Return a process with all below it."""
    found = [pid]
    for one in found:
        try:
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += [int(child) for child in children.read_text().split()]
        except OSError:
            continue
    return found


class Meter(threading.Thread):
    """Watches the peak of memory of this process and of all below it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._first: dict[int, int] = {}
        self._peak: dict[int, int] = {}
        self._is_over = threading.Event()
        for pid in list_tree(own_pid()):
            # 5 resets the kernel's own measure of the peak.
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._look()

    def run(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        for pid in list_tree(own_pid()):
            self._first.setdefault(pid, read_kilobytes(pid, "VmRSS"))
            self._peak[pid] = max(self._peak.get(pid, 0), read_kilobytes(pid, "VmHWM"))

    def finish(self) -> int:
        """Return the bytes by which the processes together have grown at most."""
        self._is_over.set()
        self.join()
        self._look()
        return 1024 * sum(max(0, peak - self._first[pid]) for pid, peak in self._peak.items())


def own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


async def main(name: str, files: Sequence[Path]) -> None:
    door, bombs = DOORS[name], list(BOMBS)
    open_door = door.prepare()
    for file in files:
        # Also starts the child, if there is one, so that its imports are not taken for the file's.
        await try_door(open_door, *door.harmless)
        data, bomb = await asyncio.to_thread(file.read_bytes), bombs[int(file.name)]
        meter = Meter()
        meter.start()
        outcome = await try_door(open_door, data, BOMBS[bomb].content_type)
        print(json.dumps({"name": bomb, "peak": meter.finish(), "outcome": outcome}), flush=True)


if __name__ == "__main__":  # children import this module again
    asyncio.run(main(sys.argv[1], sorted(Path(sys.argv[2]).iterdir())))
