"""Object storage behind one interface: a local folder, any S3 service, or memory."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from fathom.core.config import ConfigError
from fathom.core.extras import name_missing_extra
from fathom.transport.store.base import ObjectStore, StoredObject

__all__ = ["ObjectStore", "StoredObject", "open_store"]


def open_store(url: str) -> ObjectStore:
    """Open ``file:///abs/dir``, ``s3://KEY:SECRET@host:port/bucket?secure=false`` or ``memory://``.

    Each ``memory://`` is a separate store. Nothing is contacted yet. Raises ``ConfigError`` for any other URL,
    ``MissingExtra`` for S3 without the package minio.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from fathom.transport.store.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ConfigError("store_url: expected file:///absolute/folder", metadata={"field": "store_url"})
        from fathom.transport.store.folder import FolderStore

        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3":
        with name_missing_extra():
            from fathom.transport.store.s3 import S3Store, S3Target

        return S3Store(S3Target.from_url(url))
    raise ConfigError(
        f"store_url: unknown scheme {parts.scheme!r}; known: file, s3, memory", metadata={"field": "store_url"}
    )
