"""Text of sampled ids, piece by piece, and where it must stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]
REPLACEMENT = "\ufffd"


class TextStream:
    """Turns ids into text as they come; bytes of an unfinished character wait for the rest.

    Decoders join neighbours (spaces, bytes of one character), so each piece is the difference of two
    decodings that share a start: ``_start`` lies before the ids that are already out at ``_out``.
    """

    def __init__(self, decode: Decode, stops: Sequence[str]) -> None:
        self._decode, self._stops = decode, tuple(stops)
        self._ids: list[int] = []
        self._start = self._out = 0
        self.text = ""
        """All text that is out."""

    def push(self, token_id: int) -> str:
        """The text that this id completes, perhaps none."""
        self._ids.append(token_id)
        known = self._decode(self._ids[self._start : self._out])
        now = self._decode(self._ids[self._start :])
        if now.endswith(REPLACEMENT) or len(now) <= len(known):
            return ""
        self._start, self._out = self._out, len(self._ids)
        return self._emit(now[len(known) :])

    def rest(self) -> str:
        """What waited for an end that did not come."""
        known = self._decode(self._ids[self._start : self._out])
        now = self._decode(self._ids[self._start :])
        self._start = self._out = len(self._ids)
        return self._emit(now[len(known) :])

    def stopped(self) -> bool:
        """True when the text, that of waiting ids included, holds a stop string."""
        if not self._stops:
            return False
        waiting = self._decode(self._ids[self._start :])[len(self._decode(self._ids[self._start : self._out])) :]
        text = self.text + waiting
        return any(stop in text for stop in self._stops)

    def _emit(self, piece: str) -> str:
        self.text += piece
        return piece
