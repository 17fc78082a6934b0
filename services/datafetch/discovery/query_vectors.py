"""Vectors of callers' words, each computed once while it is held."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fathom.core.cache import BoundedCache
from fathom.domain.encoders.base import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# About 5,000 words: a vector takes 1.5 KB.
MAX_ENTRIES, MAX_BYTES = 8_192, 8 << 20


class QueryVectors:
    """Vectors of short texts by one encoder, bounded; thread-safe."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._lock = encoder, threading.Lock()
        self._held = BoundedCache[str, "NDArray[np.float32]"](
            max_entries=MAX_ENTRIES, max_bytes=MAX_BYTES, ttl_s=math.inf
        )

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return the vector of each text; those that are not held are computed in one call of the encoder."""
        wanted = list(dict.fromkeys(texts))
        with self._lock:
            known = {text: held for text in wanted if (held := self._held.get(text)) is not None}
        if lacking := [text for text in wanted if text not in known]:
            # Without the lock: an encoder may be a remote one, and others must not wait for its answer.
            made = self._encoder.encode(lacking, "query")
            # Copies: a row of the result would keep all of it in memory.
            known.update((text, row.copy()) for text, row in zip(lacking, made, strict=True))
            with self._lock:
                for text in lacking:
                    self._held.put(text, known[text], known[text].nbytes + 4 * len(text))
        return [known[text] for text in texts]
