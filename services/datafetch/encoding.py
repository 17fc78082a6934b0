"""Vectors of callers' texts, from the encoder that also matches names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fathom.core.cache import BoundedCache
from fathom.core.errors import InvalidField, NotFound, NotReady
from fathom.core.ids import sha256
from fathom.domain.encoders.base import Encoder
from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.discovery.embeddings import available

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TEXTS, MAX_CHARS = 64, 8_000
# What is encoded in one go: about 0.3 s of one processor with the default encoder.
PART_TEXTS, PART_CHARS = 16, 2_000
CACHED_TEXTS, CACHE_BYTES, CACHE_S = 20_000, 32 << 20, 600.0


class TextEncoder:
    """Encodes texts in a thread, one part of a request after the other; the first call loads the weights.

    A request of many long texts takes longer than most callers wait. Its parts take turns with those of other
    requests, so that a question is not kept waiting by it. Of a caller that gives up, at most the part that is being
    encoded is finished, and vectors are held for a while, so that the same request sent again goes on where the first
    one ended: without that, callers who give up and repeat would keep the encoder busy with work that nobody takes.
    """

    def __init__(self, config: Config, encoders: Encoders) -> None:
        self._config, self._encoders = config, encoders
        self._loading: asyncio.Task[int] | None = None
        self._turn = asyncio.Lock()
        # A thread cannot be interrupted: the turn ends with it, also when its caller has given up.
        self._encoding: asyncio.Task[None] | None = None
        self._vectors = BoundedCache[str, "NDArray[np.float32]"](
            max_entries=CACHED_TEXTS, max_bytes=CACHE_BYTES, ttl_s=CACHE_S
        )

    async def encode(self, texts: Sequence[str]) -> tuple[str, NDArray[np.float32]]:
        """Return the encoder's name and vectors [texts, dim].

        Raises ``InvalidField("texts")``, ``NotFound`` where no encoder is present or it is switched off, ``NotReady``
        while it is loaded.
        """
        check_texts(texts)
        config = self._config
        if config.embedding == "off" or (
            config.embedding == "auto" and not available(config.encoder, config.models_dir)
        ):
            raise NotFound("encoder", config.encoder, ["fathom data fetches it; datafetch.embedding switches it on"])
        encoder = self._encoders(config.encoder)
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(asyncio.to_thread(lambda: encoder.dim))
        # Shielded by ``wait``: a caller that gives up must not end the load for the others.
        await asyncio.wait([self._loading], timeout=config.embedding_wait_seconds)
        if not self._loading.done():
            raise NotReady(f"the encoder {config.encoder} is being loaded")
        self._loading.result()
        return encoder.name, await self._encode_in_parts(encoder, texts)

    async def _encode_in_parts(self, encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        found: dict[str, NDArray[np.float32]] = {}
        for part in split_texts(list(dict.fromkeys(texts))):
            await self._turn.acquire()
            self._encoding = asyncio.create_task(self._encode_part(encoder, part, found))
            # Of a caller that has given up nobody awaits the error.
            self._encoding.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.shield(self._encoding)
        return np.stack([found[text] for text in texts])

    async def _encode_part(self, encoder: Encoder, part: Sequence[str], found: dict[str, NDArray[np.float32]]) -> None:
        """Add the vectors of the part whose turn it is, encoding those that are not held; then end the turn."""
        keys = {text: sha256(text.encode()) for text in part}
        try:
            found.update({text: held for text, key in keys.items() if (held := self._vectors.get(key)) is not None})
            if lacking := [text for text in part if text not in found]:
                vectors = await asyncio.to_thread(encoder.encode, lacking, "query")
                for text, vector in zip(lacking, vectors, strict=True):
                    # A copy: a row of the part's array would hold all of it.
                    found[text] = vector.copy()
                    self._vectors.put(keys[text], found[text], vector.nbytes)
        finally:
            self._turn.release()


def split_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in parts of at most ``PART_TEXTS``, and ``PART_CHARS`` unless a single text has more."""
    part: list[str] = []
    chars = 0
    for text in texts:
        if part and (len(part) == PART_TEXTS or chars + len(text) > PART_CHARS):
            yield part
            part, chars = [], 0
        part.append(text)
        chars += len(text)
    if part:
        yield part


def check_texts(texts: Sequence[str]) -> None:
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise InvalidField("texts", f"must be 1 to {MAX_TEXTS}")
    for place, text in enumerate(texts):
        if not text.strip() or len(text) > MAX_CHARS:
            raise InvalidField(f"texts[{place}]", f"must have 1 to {MAX_CHARS} characters")
