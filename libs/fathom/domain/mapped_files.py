"""Files read through a map of memory."""

from __future__ import annotations

import mmap
from pathlib import Path


def map_file(path: Path) -> bytes | mmap.mmap:
    """Map a file read-only, so that all processes share what is read of it."""
    with path.open("rb") as file:
        # The system refuses to map what has no bytes.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
