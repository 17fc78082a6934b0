"""Object storage behind one interface: a local folder, any S3 service, or memory."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from fathom.core.config import ConfigError
from fathom.core.errors import DependencyFailed
from fathom.core.extras import name_missing_extra
from fathom.core.retry import RetryPolicy
from fathom.transport.store.base import ObjectStore, StoredObject

__all__ = ["OUTAGE", "ObjectStore", "StoredObject", "find_scratch", "open_store"]

# For work that would lose minutes by one failed call: pauses of 70 to 95 s together, in which a store restarts.
OUTAGE = RetryPolicy(attempts=24, max_delay_s=5.0)


def open_store(url: str, *, retries: RetryPolicy | None = None) -> ObjectStore:
    """Open ``file:///abs/dir``, ``s3://KEY:SECRET@host:port/bucket?secure=false`` or ``memory://``.

    ``retries`` bounds the attempts of each call to a store in the network; by default it fails within seconds, as
    callers want who wait for an answer. Each ``memory://`` is a separate store. Nothing is contacted yet. Raises
    ``ConfigError`` for any other URL, ``MissingExtra`` for S3 without the package minio.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from fathom.transport.store.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "file":
        from fathom.transport.store.folder import FolderStore

        return FolderStore(read_root(parts))
    if parts.scheme == "s3":
        with name_missing_extra():
            from fathom.transport.store.s3 import RETRY, S3Store, S3Target

        return S3Store(S3Target.from_url(url), policy=retries or RETRY)
    raise ConfigError(
        f"store_url: unknown scheme {parts.scheme!r}; known: file, s3, memory", metadata={"field": "store_url"}
    )


def find_scratch(url: str) -> Path | None:
    """Return a folder whose files ``put_file`` takes over without a copy; None of a store that has no disk here.

    Raises ``DependencyFailed`` when the store's folder cannot be written.
    """
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    from fathom.transport.store.folder_files import make_scratch

    try:
        return make_scratch(read_root(parts))
    except OSError as error:
        raise DependencyFailed("object store", error.strerror or type(error).__name__) from error


def read_root(parts: SplitResult) -> Path:
    """Return the folder of a store's URL; raises ``ConfigError`` for one that is not absolute."""
    if parts.netloc or not parts.path.startswith("/"):
        raise ConfigError("store_url: expected file:///absolute/folder", metadata={"field": "store_url"})
    return Path(unquote(parts.path))
