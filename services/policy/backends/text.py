"""Incremental detokenization and detection of stop strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]
REPLACEMENT = "\ufffd"


class TextStream:
    """Incremental detokenizer; bytes of an incomplete character are held back.

    Decoders join neighbouring tokens (spaces, bytes of one character), so each piece is the difference of two decodings
    with a common start: ``_start`` lies before the ids already emitted, which end at ``_out``.
    """

    def __init__(self, decode: Decode, stops: Sequence[str]) -> None:
        self._decode, self._stops = decode, tuple(stops)
        self._ids: list[int] = []
        self._start = self._out = 0
        self.text = ""
        """All text emitted so far."""

    def push(self, token_id: int) -> str:
        """Add a token id and return the text that it completes, possibly ""."""
        self._ids.append(token_id)
        known = self._decode(self._ids[self._start : self._out])
        now = self._decode(self._ids[self._start :])
        # A character of several bytes decodes to a replacement character until its last token has come.
        if now.endswith(REPLACEMENT) or len(now) <= len(known):
            return ""
        # Decoding starts one piece back, not at the beginning: its cost per token does not grow with the text.
        self._start, self._out = self._out, len(self._ids)
        return self._emit(now[len(known) :])

    def flush(self) -> str:
        """Return the text held back at the end of the completion."""
        known = self._decode(self._ids[self._start : self._out])
        now = self._decode(self._ids[self._start :])
        self._start = self._out = len(self._ids)
        return self._emit(now[len(known) :])

    def has_stopped(self) -> bool:
        """Return whether the text, including held-back ids, contains a stop string."""
        if not self._stops:
            return False
        # Held-back ids count, too: a stop string may end in the middle of a character that is not complete yet.
        waiting = self._decode(self._ids[self._start :])[len(self._decode(self._ids[self._start : self._out])) :]
        text = self.text + waiting
        return any(stop in text for stop in self._stops)

    def _emit(self, piece: str) -> str:
        self.text += piece
        return piece
