"""A byte budget for one stream of output: its head and its tail are kept, the rest is counted."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Shared by stdout and stderr of a cell. ``seen`` counts all bytes, ``dropped`` those over the limit."""

    limit: int
    seen: int = 0
    dropped: int = 0

    def take(self, size: int) -> int:
        """How many of ``size`` bytes may pass."""
        allowed = max(0, min(size, self.limit - self.seen))
        self.seen += size
        self.dropped += size - allowed
        return allowed


@dataclass
class Decoder:
    """Bytes of one stream to text: UTF-8 with replacement, never splitting a character between chunks."""

    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )

    def decode(self, data: bytes, budget: Budget) -> str:
        """The text of what the budget lets pass."""
        return self.decoder.decode(data[: budget.take(len(data))])
