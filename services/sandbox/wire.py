"""Frames between supervisor and worker: four bytes of length, then a JSON object. The peer is taken as hostile."""

from __future__ import annotations

import json
import struct
from typing import Any

HEADER = struct.Struct(">I")
MAX_FRAME = 12 * 1024 * 1024
# Bound once: in a worker a cell may replace what the module ``json`` holds.
ENCODE = json.JSONEncoder().encode
DECODE = json.JSONDecoder().decode


class BadFrame(ValueError):
    """The bytes are no frame of this protocol."""


def pack(message: dict[str, Any]) -> bytes:
    """One frame."""
    body = ENCODE(message).encode("ascii")
    return HEADER.pack(len(body)) + body


def length(header: bytes) -> int:
    """Length of the body; raises ``BadFrame`` when it is over the limit."""
    (size,) = HEADER.unpack(header)
    if size > MAX_FRAME:
        raise BadFrame(f"a frame of {size:,} bytes is over the limit of {MAX_FRAME:,}")
    return int(size)


def unpack(body: bytes) -> dict[str, Any]:
    """The message; raises ``BadFrame`` for anything but a JSON object."""
    try:
        message = DECODE(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFrame("no JSON") from error
    if not isinstance(message, dict):
        raise BadFrame("no JSON object")
    return message
