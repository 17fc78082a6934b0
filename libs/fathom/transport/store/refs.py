"""Conversion between stored objects and the message type ``ObjectRef``."""

from __future__ import annotations

from fathom.api.common.v1 import common_pb2
from fathom.core.errors import CorruptData, PayloadTooLarge
from fathom.transport.store.base import ObjectStore, StoredObject


def to_ref(stored: StoredObject) -> common_pb2.ObjectRef:
    """Convert an object's metadata to the reference used in messages."""
    return common_pb2.ObjectRef(
        key=stored.key, size_bytes=stored.size_bytes, sha256=stored.sha256, content_type=stored.content_type
    )


def from_ref(ref: common_pb2.ObjectRef) -> StoredObject:
    """Convert a reference to an object's metadata."""
    return StoredObject(ref.key, ref.size_bytes, ref.sha256, ref.content_type)


async def read_ref(store: ObjectStore, ref: common_pb2.ObjectRef, max_bytes: int = 0) -> bytes:
    """Return the bytes that a reference points to.

    Raises ``NotFound``, ``CorruptData`` when checksum or size differ from the reference, and ``PayloadTooLarge``
    before anything is read when ``max_bytes`` is given and the object has more.
    """
    if max_bytes:
        # The size in the reference is the caller's word; the store's own is what will be read.
        stored = await store.head(ref.key)
        if stored is not None and stored.size_bytes > max_bytes:
            raise PayloadTooLarge(stored.size_bytes, max_bytes)
    data = await store.get(ref.key, ref.sha256 or None)
    if ref.size_bytes and len(data) != ref.size_bytes:
        raise CorruptData(ref.key, f"has {len(data)} bytes, not {ref.size_bytes}")
    return data
