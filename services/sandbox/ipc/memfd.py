"""Sealed memory files, which carry tables and other large data between front, supervisor and worker."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

from fathom.core.errors import PayloadTooLarge

# Sealed against every change: a reader that maps the file would die of SIGBUS if somebody made it shorter, and could
# read other bytes than those that were checked if somebody wrote to it.
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(frozen=True)
class SealedMemory:
    """A sealed memory file; its holder closes it."""

    descriptor: int
    size: int

    @classmethod
    def of(cls, descriptor: int, limit: int) -> SealedMemory:
        """Return a received memory file; raise ``PayloadTooLarge`` over ``limit`` bytes, and close it then."""
        size = os.fstat(descriptor).st_size
        if size > limit:
            os.close(descriptor)
            raise PayloadTooLarge(size, limit)
        return cls(descriptor, size)

    def read(self) -> bytes:
        """Return all bytes."""
        parts, position = [], 0
        # By position: the offset is shared by all who hold the descriptor.
        while position < self.size and (part := os.pread(self.descriptor, self.size - position, position)):
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        os.close(self.descriptor)


def create_sealed_memory(name: str, data: bytes) -> SealedMemory:
    """Return a new memory file with the data, sealed against every change; see memfd_create(2)."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:  # the descriptor has no owner yet
        os.close(descriptor)
        raise
    return SealedMemory(descriptor, len(data))
