"""Memory, descriptors and threads of the processes of a stack that last, seen from outside."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SUPERVISOR, SUPERVISOR_NAME = "supervisor.main import main", "sandbox supervisor"
KIB = 1024
# A process that does much else answers the signal late.
ANSWER_S = 60.0


@dataclass(frozen=True)
class Sample:
    """Hold what a process has, at a time in seconds."""

    at: float
    rss_mib: float
    pss_mib: float
    """Its own memory, and its share of what it has in common with others."""
    descriptors: int
    threads: int


def list_children() -> Mapping[int, list[int]]:
    """Return the processes of this machine by their parent."""
    children: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # The name in brackets may hold anything: what follows the last bracket is state and parent.
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(process.name))
    return children


def list_below(root: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """Yield all processes below one, the nearest first."""
    for child in children.get(root, ()):
        yield child
        yield from list_below(child, children)


def list_lasting(services: Mapping[str, int]) -> dict[str, int]:
    """Return the services' processes and the sandbox's supervisor, which last.

    What is below the supervisor does not: it renews its fork server from time to time, and kernels are forks of that.
    """
    for pid in list_children()[services["sandbox"]]:
        if SUPERVISOR in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "):
            return {**services, SUPERVISOR_NAME: pid}
    raise LookupError("the sandbox has no supervisor")


def count_below(pid: int) -> int:
    """Return the number of processes below one."""
    return sum(1 for _ in list_below(pid, list_children()))


def measure(pid: int, since: float) -> Sample | None:
    """Measure a process; None when it has just ended."""
    process = Path(f"/proc/{pid}")
    try:
        sizes = dict(re.findall(r"^(\w+): +(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE))
        threads = int(re.findall(r"^Threads:\s+(\d+)", (process / "status").read_text(), re.MULTILINE)[0])
        descriptors = len(os.listdir(process / "fd"))
    except OSError:
        return None
    rss, pss = int(sizes["Rss"]) / KIB, int(sizes["Pss"]) / KIB
    return Sample(time.monotonic() - since, rss, pss, descriptors, threads)


def list_descriptors(pid: int) -> Counter[str]:
    """Return the open descriptors of a process by kind: files by their folder, sockets, pipes, and so on."""
    kinds, folder = Counter[str](), Path(f"/proc/{pid}/fd")
    for link in folder.iterdir() if folder.exists() else ():
        try:
            target = os.readlink(link)
        except OSError:  # it has just been closed
            continue
        kinds[target.partition(":")[0] if not target.startswith("/") else str(Path(target).parent)] += 1
    return kinds


def name_file(folder: Path, service: str) -> Path:
    """Return the next file that a service writes."""
    number = len(list(folder.glob(f"{service}.*.json")))
    return folder / f"{service}.{number}.json"


async def ask_held(pid: int, service: str, folder: Path) -> Path | None:
    """Let a service write what it holds, and return the file; None when it does not answer."""
    file = name_file(folder, service)
    os.kill(pid, signal.SIGUSR2)
    deadline = time.monotonic() + ANSWER_S
    while not file.exists():
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(0.2)
    return file
