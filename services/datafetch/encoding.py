"""Vectors of callers' texts, from the encoder that also matches names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fathom.core.errors import InvalidField, NotFound, NotReady
from fathom.domain.encoders.choose import Encoders
from fathom.services.datafetch.config import Config
from fathom.services.datafetch.discovery.embeddings import available

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TEXTS, MAX_CHARS = 64, 8_000


class TextEncoder:
    """Encodes texts in a thread; the first call loads the weights."""

    def __init__(self, config: Config, encoders: Encoders) -> None:
        self._config, self._encoders = config, encoders
        self._loading: asyncio.Task[int] | None = None

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
        return encoder.name, await asyncio.to_thread(encoder.encode, list(texts), "query")


def check_texts(texts: Sequence[str]) -> None:
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise InvalidField("texts", f"must be 1 to {MAX_TEXTS}")
    for place, text in enumerate(texts):
        if not text.strip() or len(text) > MAX_CHARS:
            raise InvalidField(f"texts[{place}]", f"must have 1 to {MAX_CHARS} characters")
