"""Decoding of bytes from outside in a child process, whose memory and processor time the kernel limits.

A table of a few kilobytes can unpack to gigabytes, and no check of the bytes beforehand sees that for every format. The
process that holds keys and ports therefore never unpacks what a caller has sent: a child does, and only the child ends
when the bytes turn out to be a bomb. ::

    decoder = Decoder(DecodingLimits(memory_bytes=1 << 30, processor_s=30))
    rows = await decoder.run("data", count_rows, data)  # `count_rows` is a function of a module
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fathom.core.errors import InvalidField

P = ParamSpec("P")
T = TypeVar("T")

# Calls after which a child is replaced, so that fragments of its heap do not pile up.
CALLS_PER_CHILD = 1_000
# Imported by the server from which children are forked, so that none of them has to.
PRELOADED = ("fathom.domain.frames", "pandas", "pyarrow", "pyarrow.parquet")


@dataclass(frozen=True)
class DecodingLimits:
    """Limits of one call: bytes of memory beside the child's own, seconds of processor time, and calls at once."""

    memory_bytes: int
    processor_s: int
    children: int = 2


class Decoder:
    """Runs functions in limited child processes, which start with the first call and are used again."""

    def __init__(self, limits: DecodingLimits) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(limits.children)
        # One child each, so that a child that is ended takes no other call along.
        self._idle: list[ProcessPoolExecutor] = []
        self._is_closed = False

    async def run(self, field: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function of a module makes of its arguments.

        Raise the function's own errors, and ``InvalidField(field)`` when the call needs more memory or processor time
        than the limits allow. A call whose caller goes away runs on, within them, before its child serves another.
        """
        await self._places.acquire()
        child = self._idle.pop() if self._idle else self._start()
        loop = asyncio.get_running_loop()
        call: Future[T] = child.submit(limit_call, self._limits.processor_s, function, args, kwargs)
        call.add_done_callback(lambda ended: loop.call_soon_threadsafe(self._give_back, child, ended))
        try:
            return await asyncio.wrap_future(call)
        except (BrokenProcessPool, MemoryError) as error:
            limits = f"{self._limits.memory_bytes:,} bytes of memory or {self._limits.processor_s} s of processor time"
            raise InvalidField(field, f"cannot be decoded within {limits}") from error

    def close(self) -> None:
        """End the children; a call under way ends with its limits."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().shutdown(wait=False)

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        return ProcessPoolExecutor(
            1, context, prepare_child, (self._limits.memory_bytes,), max_tasks_per_child=CALLS_PER_CHILD
        )

    def _give_back(self, child: ProcessPoolExecutor, ended: Future[Any]) -> None:
        self._places.release()
        # What ran out of memory may have left its heap in pieces.
        is_spent = ended.cancelled() or isinstance(ended.exception(), (BrokenProcessPool, MemoryError))
        if is_spent or self._is_closed:
            child.shutdown(wait=False)
        else:
            self._idle.append(child)


def prepare_child(memory_bytes: int) -> None:
    """Make this process one that ends with its service and has ``memory_bytes`` of memory more than now."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        # A service that is killed closes no pool, and the server from which children are forked lives as long as they.
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, name="end with the service", daemon=True).start()
    limit_memory(memory_bytes)


def limit_memory(memory_bytes: int) -> None:
    """Limit the memory of this process to what it has now and ``memory_bytes`` more."""
    import pyarrow

    # The other allocators reserve address space far beyond what they use, which the limit counts.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    # Each thread would have a heap of its own.
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    top = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (top, top))


def limit_call(processor_s: int, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Call a function with ``processor_s`` seconds of processor time; the kernel ends this process when they are up."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    # Counted since the start of the process, and in whole seconds.
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + processor_s + 1, most))
    return function(*args, **kwargs)
