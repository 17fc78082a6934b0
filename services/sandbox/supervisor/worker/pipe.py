"""One output stream of a worker, read by the supervisor without blocking its loop and without trusting the writer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

# Capacity of a pipe.
READ_SIZE = 65_536
# 2 MiB, more than a pipe can hold: the rest was written after the cell ended.
MAX_DRAIN_READS = 32
Sink = Callable[[str, bytes], None]


def discard(stream: str, data: bytes) -> None:
    """Discard output; the sink between two cells."""


class OutputPipe:
    """Pipe whose bytes go to ``sink``, together with the stream's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sink: Sink = discard
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read_end, self._read)

    def fileno(self) -> int:
        """Return the write end, for the worker."""
        return self._write_end

    def close_write_end(self) -> None:
        """Close the write end, once the worker has inherited it."""
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1

    def _read(self) -> bool:
        """Read once; return False when nothing is there."""
        if self._read_end < 0:
            return False
        try:
            # Only once: a flood must not keep the loop from its other work.
            data = os.read(self._read_end, READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._read_end)
            return False
        self.sink(self.name, data)
        return True

    def drain(self) -> None:
        """Read the bytes that are there now."""
        # Bounded, since another process may still be writing.
        for _ in range(MAX_DRAIN_READS):
            if not self._read():
                return

    def close(self) -> None:
        """Close both ends; do nothing the second time."""
        self.close_write_end()
        if self._read_end >= 0:
            self._loop.remove_reader(self._read_end)
            os.close(self._read_end)
            self._read_end = -1
