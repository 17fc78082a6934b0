"""Sealed memory files, which carry tables and other large data between front, supervisor and worker."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

from fathom.errors import PayloadTooLarge

SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(frozen=True)
class Memory:
    """A sealed memory file; its holder closes it."""

    descriptor: int
    size: int

    @classmethod
    def of(cls, descriptor: int, limit: int) -> Memory:
        """Return a received memory file; raise ``PayloadTooLarge`` over ``limit`` bytes, and close it then."""
        size = os.fstat(descriptor).st_size
        if size > limit:
            os.close(descriptor)
            raise PayloadTooLarge(size, limit)
        return cls(descriptor, size)

    def read(self) -> bytes:
        """Return all bytes."""
        parts, position = [], 0
        while position < self.size and (part := os.pread(self.descriptor, self.size - position, position)):
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        os.close(self.descriptor)


def sealed(name: str, data: bytes) -> Memory:
    """Return a new memory file with the data, sealed against every change; see memfd_create(2)."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return Memory(descriptor, len(data))
