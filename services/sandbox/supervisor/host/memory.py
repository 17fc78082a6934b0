"""Memory of a session's processes where no control group counts it: shared pages count in parts, as PSS."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fathom.services.sandbox.supervisor.host.procfs import Process, Usage


@dataclass(frozen=True)
class Reading:
    """Bytes of a process, and what it had done by then of what can change them."""

    process: Process
    pss_bytes: int

    def is_true_of(self, process: Process) -> bool:
        """Return whether the process can hold no more of its own than when it was read."""
        # Pages become its own by faults alone, be they new or copies of shared ones.
        return (self.process.started, self.process.faults) == (process.started, process.faults)


class MemoryGauge:
    """Gauge of one session's memory, which reads a process again only when it can hold more than before.

    A reading takes milliseconds, in which the kernel looks at all pages: a session full of processes that only compute
    would else be a load on its neighbours.
    """

    def __init__(self) -> None:
        self._readings: dict[int, Reading] = {}

    async def measure(self, usage: Usage, limit: int, read: Callable[[int], Awaitable[int]]) -> int:
        """Return the memory of the processes in bytes: resident, or as PSS where that is over ``limit``.

        Forked children share most pages with their parent, and all with the fork server: counted as a whole for each,
        nothing could be forked. ``read`` returns the PSS of a process.
        """
        if usage.resident_bytes <= limit:
            return usage.resident_bytes
        if self._readings.keys() - set(usage.pids):
            # What has ended leaves its part of the shared pages to the others.
            self._readings.clear()
        total = 0
        # The largest first: where there is too much, few have to be read.
        for process in sorted(usage.processes, key=lambda process: -process.resident_bytes):
            known = self._readings.get(process.pid)
            if known is None or not known.is_true_of(process):
                known = self._readings[process.pid] = Reading(process, await read(process.pid))
            total += known.pss_bytes
            if total > limit:
                break
        return total
