"""Peak of resident memory per crafted file, as a share of what its door declares; the goal is 1.5 at most."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tests.bench.bombs.doors import DOORS
from tests.bench.bombs.files import BOMBS, MIB

GOAL = 1.5


@dataclass(frozen=True)
class Result:
    """Record the outcome of one file."""

    name: str
    door: str
    size_bytes: int
    peak_bytes: int
    outcome: str

    @property
    def share(self) -> float:
        """Return the peak as a share of what the door declares."""
        return self.peak_bytes / DOORS[self.door].bound_bytes


def write_files(door: str, names: Collection[str], folder: str) -> dict[str, int]:
    """Write a door's files under their position in ``BOMBS``; return their sizes by name."""
    sizes = {}
    for number, (name, bomb) in enumerate(BOMBS.items()):
        if bomb.door == door and name in names:
            sizes[name] = Path(folder, f"{number:03}").write_bytes(bomb.make())
    return sizes


async def measure_door(door: str, names: Collection[str] = BOMBS) -> list[Result]:
    """Give a door, in a process of its own, those of its files that are named."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = await asyncio.to_thread(write_files, door, names, folder)
        # The peak of a process never falls: with one for all doors the first would hide the others.
        command = (sys.executable, "-m", "tests.bench.bombs.door", door, folder)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the process of door {door} ended with {process.returncode}")
    found = [json.loads(line) for line in printed.splitlines()]
    return [Result(item["name"], door, sizes[item["name"]], item["peak"], item["outcome"]) for item in found]


async def run() -> None:
    results = []
    for door in DOORS:
        for result in await measure_door(door):
            results.append(result)
            print(
                f"{door:14} {result.name:40} {result.size_bytes:>11,} B  peak {result.peak_bytes / MIB:7.0f} MiB"
                f"  / {DOORS[door].bound_bytes / MIB:5.0f} = {result.share:4.2f}  {result.outcome}",
                flush=True,
            )
    worst = max(results, key=lambda result: result.share)
    over = sum(result.share > GOAL for result in results)
    print(f"{len(results)} files; highest share {worst.share:.2f} ({worst.name}); over {GOAL}: {over}")
