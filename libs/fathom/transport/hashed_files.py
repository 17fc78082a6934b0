"""A writer that hashes what it writes, in a thread beside it: bytes pass through the processor once."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from fathom.transport.checksums import SHA256, format_checksum, make_hasher


class HashingWriter:
    """Writer to an open descriptor, from front to back; the descriptor is the writer's to close."""

    def __init__(self, descriptor: int, algorithm: str = SHA256) -> None:
        self.descriptor, self.size_bytes = descriptor, 0
        self._algorithm, self._hash = algorithm, make_hasher(algorithm)
        self._hashing = ThreadPoolExecutor(1, thread_name_prefix="hashing")
        self._pending: list[Future[None]] = []

    def write(self, data: bytes | memoryview) -> None:
        """Append ``data``, which must not change before ``finish``; raises ``OSError`` when there is no room."""
        view = memoryview(data).cast("B")
        # Hashing takes as long as writing to new memory, and both release the lock of the interpreter.
        self._pending.append(self._hashing.submit(self._hash.update, view))
        self.size_bytes += len(view)
        while view:
            view = view[os.write(self.descriptor, view) :]

    def finish(self) -> str:
        """Wait until all is hashed, and return the checksum."""
        for part in self._pending:
            part.result()
        self._pending.clear()
        self._hashing.shutdown()
        return format_checksum(self._algorithm, self._hash.hexdigest())

    def discard(self) -> None:
        """Stop hashing, and close the descriptor."""
        self._hashing.shutdown(cancel_futures=True)
        os.close(self.descriptor)


class FileWriter(HashingWriter):
    """Writer of a new file on a disk, which is flushed to it while the rest is hashed."""

    def __init__(self, path: Path, algorithm: str = SHA256) -> None:
        super().__init__(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), algorithm)
        self._flushing = ThreadPoolExecutor(1, thread_name_prefix="flushing")
        self._flushed: Future[None] | None = None

    def flush(self) -> None:
        """Begin to flush what is written; ``wait_flushed`` waits for the end of it."""
        self._flushed = self._flushing.submit(os.fsync, self.descriptor)

    def wait_flushed(self) -> None:
        """Wait until the disk has the bytes, and close the file; raises ``OSError`` when the disk fails."""
        try:
            if self._flushed is not None:
                self._flushed.result()
        finally:
            self._flushing.shutdown()
            os.close(self.descriptor)

    def discard(self) -> None:
        self._flushing.shutdown()
        super().discard()
