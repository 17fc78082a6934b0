"""Check of a safetensors file before a library reads it: how large its header is, and that it lies within the file."""

from __future__ import annotations

import struct
from pathlib import Path

from fathom.core.errors import CorruptData

LENGTH = struct.Struct("<Q")
# A hundred thousand tensors; the library itself takes six times as much, and each tensor costs it many times its bytes.
MAX_HEADER_BYTES = 16 << 20


def check_header(path: Path) -> None:
    """Raise ``CorruptData`` when the header of a safetensors file is larger than it may be, or than the file."""
    with path.open("rb") as file:
        start = file.read(LENGTH.size)
    if len(start) < LENGTH.size:
        raise CorruptData(path.name, "has no header of safetensors")
    (length,) = LENGTH.unpack(start)
    if length > MAX_HEADER_BYTES:
        raise CorruptData(path.name, f"its header has {length:,} bytes, over the limit of {MAX_HEADER_BYTES:,}")
    if length + LENGTH.size > path.stat().st_size:
        raise CorruptData(path.name, f"its header has {length:,} bytes, the file fewer")
