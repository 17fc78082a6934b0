"""Byte budget for the output of one cell, in the supervisor: head shown at once, tail at the end, the rest counted."""

from __future__ import annotations

import codecs
from collections import Counter, deque

from fathom.services.sandbox.supervisor.events import Gap, Output

# A quarter for the tail: the end of a long output holds the result or the error, the head what led to it.
TAIL_SHARE = 4


class OutputBudget:
    """Output of stdout and stderr under one budget of ``limit`` bytes, a quarter of it for the tail.

    Text is UTF-8 with replacement, and no character is split between two pieces.
    """

    def __init__(self, limit: int) -> None:
        self._tail_limit = limit // TAIL_SHARE
        self._head_left = limit - self._tail_limit
        # Both streams in the order of arrival, so that what is dropped is the oldest of both.
        self._tail: deque[tuple[str, bytes]] = deque()
        self._tail_size = 0
        self._gaps: Counter[str] = Counter()
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self.seen_bytes = 0

    @property
    def dropped_bytes(self) -> int:
        """Number of bytes left out."""
        return self._gaps.total()

    def take(self, stream: str, data: bytes) -> str:
        """Return the text to show now; "" when all of ``data`` waits for the end."""
        self.seen_bytes += len(data)
        now, later = data[: self._head_left], data[self._head_left :]
        self._head_left -= len(now)
        if later:
            self._tail.append((stream, later))
            self._tail_size += len(later)
            self._trim()
        return self._decoder(stream).decode(now)

    def _trim(self) -> None:
        """Drop the oldest bytes of the tail that are over its share."""
        while self._tail_size > self._tail_limit:
            stream, data = self._tail.popleft()
            excess = min(len(data), self._tail_size - self._tail_limit)
            if excess < len(data):
                self._tail.appendleft((stream, data[excess:]))
            self._tail_size -= excess
            self._gaps[stream] += excess

    def finish(self) -> list[Output | Gap]:
        """Return the rest to show at the end of the cell: for each stream its gap, if any, and its tail."""
        found: list[Output | Gap] = []
        for stream in ("stdout", "stderr"):
            rest = b"".join(data for owner, data in self._tail if owner == stream)
            decoder = self._decoder(stream)
            if self._gaps[stream]:
                # The head may end, and the tail begin, within a character.
                decoder.reset()
                # Bytes that continue a character whose beginning was dropped; four or more of them are no UTF-8 and
                # stay as they are.
                whole = rest.lstrip(bytes(range(0x80, 0xC0)))
                if len(rest) - len(whole) < 4:
                    self._gaps[stream] += len(rest) - len(whole)
                    rest = whole
                found.append(Gap(stream, self._gaps[stream]))
            if text := decoder.decode(rest, final=True):
                found.append(Output(stream, text))
        self._tail.clear()
        return found

    def _decoder(self, stream: str) -> codecs.IncrementalDecoder:
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return self._decoders[stream]
