"""Interface of every object store, and the keys it accepts."""

from __future__ import annotations

import builtins
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from fathom.core.errors import Conflict, CorruptData, InvalidField
from fathom.transport.checksums import (
    BLAKE3,
    SHA256,
    algorithm_of,
    digits_of,
    format_checksum,
    hash_bytes,
    make_hasher,
)

# S3 allows 1,024 bytes in a key; file systems mostly 255 in a name, hence 200 per segment, which leaves room for the
# suffix of FolderStore.
MAX_KEY_LENGTH = 512
# A segment starts with no dot, so that neither "." nor ".." nor a store's own dot files can be named.
SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9._=@+,-]{0,199}"
# Segments separated by slashes, such as runs/run_1/answer.json; as a path below a folder such a key cannot leave it.
KEY_PATTERN = re.compile(rf"{SEGMENT}(?:/{SEGMENT})*")
PREFIX_PATTERN = re.compile(rf"(?:{SEGMENT}/)*(?:{SEGMENT})?")
# What of a file is in memory at a time: large enough for whole reads of a disk, small enough for a processor's cache.
CHUNK_BYTES, MAX_PENDING_CHUNKS = 2**20, 8
UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class StoredObject:
    """Metadata of an object: one of ``sha256`` and ``blake3`` is empty, the other one lower-case hexadecimal."""

    key: str
    size_bytes: int
    sha256: str
    content_type: str
    blake3: str = ""

    @classmethod
    def of(cls, key: str, size_bytes: int, checksum: str, content_type: str = UNKNOWN_TYPE) -> StoredObject:
        """Return the metadata of an object with a checksum of either algorithm (``fathom.transport.checksums``)."""
        digits = digits_of(checksum)
        if algorithm_of(checksum) == BLAKE3:
            return cls(key, size_bytes, "", content_type, digits)
        return cls(key, size_bytes, digits, content_type)

    @property
    def checksum(self) -> str:
        """Return the checksum with its algorithm."""
        return format_checksum(BLAKE3, self.blake3) if self.blake3 else self.sha256

    def to_json(self) -> dict[str, Any]:
        """Return the fields; ``blake3`` only where there is one, as earlier versions wrote and read them."""
        return {name: value for name, value in asdict(self).items() if value or name != BLAKE3}


class ObjectStore(Protocol):
    """Whole objects by key. Writes are atomic and replace; reads verify the checksum.

    Every method raises ``InvalidField("key")`` for a key outside ``KEY_PATTERN`` and ``DependencyFailed`` when the
    store cannot be reached after bounded retries.
    """

    async def put(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        """Store ``data`` under ``key``, replacing any existing object."""
        ...

    async def create(self, key: str, data: bytes, content_type: str = "application/octet-stream") -> StoredObject:
        """Store ``data`` under a key that does not exist yet; of several writers one succeeds.

        Storing equal bytes again succeeds, as after a lost answer. Raises ``Conflict`` when there are other bytes.
        """
        ...

    async def get(self, key: str, checksum: str | None = None) -> bytes:
        """Return the object's bytes, verified against the recorded checksum and ``checksum`` if given.

        Raises ``NotFound`` or ``CorruptData``.
        """
        ...

    async def put_file(self, key: str, path: Path, checksum: str = "", *, is_given: bool = False) -> StoredObject:
        """Store a file's bytes under ``key`` like ``put``, without reading all of them into memory.

        ``checksum`` is the file's where the caller has computed it of these very bytes; otherwise its SHA-256 is
        computed. A file that ``is_given`` may be taken from its place in whole: who gives it does not use it again, and
        flushes it to disk.
        """
        ...

    async def get_file(self, key: str, path: Path, checksum: str | None = None) -> StoredObject:
        """Write the object's bytes into a file, verified like those of ``get``, and return its metadata.

        Does not hold all of them in memory. The file may be the store's own under another name: it is to be read,
        replaced or removed, never written to. Raises ``NotFound`` or ``CorruptData``; the file is then to be discarded.
        """
        ...

    async def head(self, key: str) -> StoredObject | None:
        """Return the object's metadata, or None if it does not exist."""
        ...

    async def list(self, prefix: str) -> list[StoredObject]:
        """Return the metadata of all objects whose key starts with ``prefix``, sorted by key.

        ``prefix`` may be any string, not only a folder.
        """
        ...

    async def keys(self, prefix: str, *, after: str = "", limit: int = 0) -> builtins.list[str]:
        """Return the keys that start with ``prefix`` and sort behind ``after``, sorted; the first ``limit`` unless 0.

        Reads no object and no metadata, which ``list`` does for each one.
        """
        ...

    async def delete(self, key: str) -> None:
        """Remove the object; no error when it does not exist."""
        ...

    async def close(self) -> None:
        """Free connections; the store must not be used afterwards."""
        ...


def checked_key(key: str) -> str:
    """Return ``key`` if every backend can store it safely; raise ``InvalidField("key")`` otherwise."""
    if len(key) > MAX_KEY_LENGTH or not KEY_PATTERN.fullmatch(key):
        raise InvalidField(
            "key",
            f"{key[:80]!r} is no path of segments of letters, digits and '._=@+,-' that start with a letter, "
            f"a digit or '_' (at most {MAX_KEY_LENGTH} characters, 200 per segment)",
        )
    return key


def checked_prefix(prefix: str) -> str:
    """Return ``prefix`` if some key can start with it; raise ``InvalidField("prefix")`` otherwise."""
    if len(prefix) > MAX_KEY_LENGTH or not PREFIX_PATTERN.fullmatch(prefix):
        raise InvalidField("prefix", f"{prefix[:80]!r} starts no valid key")
    return prefix


def make_conflict(key: str) -> Conflict:
    """Return the error for a key that another writer has created."""
    return Conflict(f"object {key!r} exists already", metadata={"key": key})


def verify(key: str, data: bytes, *expected: str | None) -> bytes:
    """Return ``data`` if it has every given checksum; raise ``CorruptData`` otherwise."""
    for algorithm in sorted({algorithm_of(checksum) for checksum in expected if checksum is not None}):
        compare(key, hash_bytes(data, algorithm), *expected)
    return data


def compare(key: str, actual: str, *expected: str | None) -> None:
    """Raise ``CorruptData`` when a checksum of the algorithm of ``actual`` is another one."""
    algorithm = algorithm_of(actual)
    for checksum in expected:
        if checksum is not None and algorithm_of(checksum) == algorithm and checksum != actual:
            name = "BLAKE3" if algorithm == BLAKE3 else "SHA-256"
            raise CorruptData(key, f"{name} is {digits_of(actual)}, not {digits_of(checksum)}")


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of an open file, piece by piece."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def write_hashed(chunks: Iterator[bytes], path: Path, algorithm: str = SHA256) -> tuple[int, str]:
    """Write pieces into a file; return their number of bytes and their checksum."""
    hasher, size = make_hasher(algorithm), 0
    pending: deque[Future[None]] = deque()
    # Hashing takes about as long as writing, and both release the lock of the interpreter.
    with ThreadPoolExecutor(1, thread_name_prefix="hashing") as hashing, path.open("wb") as file:
        for chunk in chunks:
            # A few pieces behind at most: waiting for each one would cost two changes of thread per piece.
            if len(pending) == MAX_PENDING_CHUNKS:
                pending.popleft().result()
            pending.append(hashing.submit(hasher.update, chunk))
            size += file.write(chunk)
        for update in pending:
            update.result()
    return size, format_checksum(algorithm, hasher.hexdigest())
