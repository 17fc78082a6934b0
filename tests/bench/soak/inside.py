"""Run inside a service, as its ``sitecustomize``: on SIGUSR2 the process writes what it holds to a file.

What is counted: objects by class, entries of the containers of our own objects, tasks and threads, and what malloc has
given out and keeps. With ``SOAK_TRACE`` the name of a service, also where its memory was allocated.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import gc
import json
import os
import signal
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

FOLDER, TRACE = "SOAK_FOLDER", "SOAK_TRACE"
PREFIX = "fathom.services."
CONTAINERS = (dict, list, set, collections.deque, bytearray)
# Entries that are looked at: what grows without a bound is among the largest long before it matters.
LARGEST, TRACED = 400, 40
FRAMES = 12


class MallInfo(ctypes.Structure):
    """Figures of glibc's ``mallinfo2`` in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    ]


def find_service() -> str:
    """Return the service that this process is; "" for another process."""
    return next((part.removeprefix(PREFIX) for part in sys.orig_argv if part.startswith(PREFIX)), "")


def read_malloc() -> dict[str, int]:
    """Return the bytes that malloc has given out, and those that it keeps although they were freed."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = MallInfo
    found = ask()
    return {"given out": found.uordblks + found.hblkhd, "freed and kept": found.fordblks}


def list_attributes(one: object) -> list[tuple[str, Any]]:
    """Return the attributes of an object by name."""
    names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    slots = [(name, getattr(one, name, None)) for name in names if isinstance(name, str)]
    return [*getattr(one, "__dict__", {}).items(), *slots]


def count_held() -> dict[str, dict[str, int]]:
    """Return the numbers of objects by class, and of entries in the containers of our own objects by attribute."""
    gc.collect()
    kinds, entries, tasks = collections.Counter[str](), collections.Counter[str](), 0
    for one in gc.get_objects():
        kind = type(one)
        tasks += issubclass(kind, asyncio.Task) and not one.done()
        name = f"{kind.__module__}.{kind.__qualname__}"
        kinds[name] += 1
        if name.startswith("fathom."):
            for attribute, value in list_attributes(one):
                if isinstance(value, CONTAINERS):
                    entries[f"{name}.{attribute}"] += len(value)
    return {
        "objects": dict(kinds.most_common(LARGEST)),
        "entries": dict(entries.most_common(LARGEST)),
        "lasting": {"threads": threading.active_count(), "tasks": tasks},
    }


def trace() -> dict[str, int]:
    """Return the bytes by the place that allocated them, the largest first; {} where nothing is traced."""
    if not tracemalloc.is_tracing():
        return {}
    found = tracemalloc.take_snapshot().statistics("traceback")[:TRACED]
    return {" < ".join(f"{at.filename}:{at.lineno}" for at in reversed(one.traceback)): one.size for one in found}


def write_held(service: str, folder: Path) -> None:
    """Write a file that nobody sees half of."""
    number = len(list(folder.glob(f"{service}.*.json")))
    held = {**count_held(), "malloc": read_malloc(), "traced": trace()}
    written = folder / f"{service}.{number}"
    written.write_text(json.dumps(held))
    written.rename(folder / f"{service}.{number}.json")


def answer_signals(service: str, folder: Path) -> None:
    """Write what is held at each signal, forever."""
    while True:
        signal.sigwait({signal.SIGUSR2})
        write_held(service, folder)


def install() -> None:
    """Answer the signal, in a service whose environment names a folder."""
    service = find_service()
    if service and FOLDER in os.environ:
        if os.environ.get(TRACE) == service:
            tracemalloc.start(FRAMES)
        # A thread of its own waits for it, since uvloop calls no handlers but those that it was given. Blocked before
        # any other thread begins: they inherit it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        folder = Path(os.environ[FOLDER])
        threading.Thread(target=answer_signals, args=(service, folder), daemon=True, name="what is held").start()


if __name__ == "sitecustomize":
    install()
