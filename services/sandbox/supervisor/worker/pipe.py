"""One output stream of a worker, read by the supervisor without blocking its loop and without trusting the writer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

# Capacity of a pipe.
READ_SIZE = 65_536
# 2 MiB, more than a pipe can hold: the rest was written after the cell ended.
MAX_DRAIN_READS = 32
# After a read of as much the writer is ahead of us and would be for ever: it waits, so that the loop, which all share,
# is not busy with one that floods it. No output that anybody reads is so much.
FLOOD_BYTES, FLOOD_PAUSE_S = READ_SIZE // 2, 0.002
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
        self._is_paused = False
        self._loop.add_reader(self._read_end, self._read_in_turn)

    def fileno(self) -> int:
        """Return the write end, for the worker."""
        return self._write_end

    def close_write_end(self) -> None:
        """Close the write end, once the worker has inherited it."""
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1

    def _read_in_turn(self) -> None:
        """Read once, and let the others of the loop go first when there was much."""
        if self._read() > FLOOD_BYTES:
            self._is_paused = True
            self._loop.remove_reader(self._read_end)
            self._loop.call_later(FLOOD_PAUSE_S, self._resume)

    def _resume(self) -> None:
        # It may have been closed meanwhile.
        if self._is_paused and self._read_end >= 0:
            self._is_paused = False
            self._loop.add_reader(self._read_end, self._read_in_turn)

    def _read(self) -> int:
        """Read once; return the number of bytes, 0 when nothing is there."""
        if self._read_end < 0:
            return 0
        try:
            # Only once: a flood must not keep the loop from its other work.
            data = os.read(self._read_end, READ_SIZE)
        except BlockingIOError:
            return 0
        if not data:
            self._is_paused = False
            self._loop.remove_reader(self._read_end)
            return 0
        self.sink(self.name, data)
        return len(data)

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
