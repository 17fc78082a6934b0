"""Frames between supervisor and worker, used by both: four bytes of length, then a JSON object.

The supervisor takes its peer as hostile.
"""

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
    """Error of bytes that are no frame of this protocol."""


def pack(message: dict[str, Any]) -> bytes:
    """Return the message as one frame."""
    body = ENCODE(message).encode("ascii")
    return HEADER.pack(len(body)) + body


def length(header: bytes) -> int:
    """Return the length of the body in bytes; raise ``BadFrame`` when it is over ``MAX_FRAME``."""
    (size,) = HEADER.unpack(header)
    if size > MAX_FRAME:
        raise BadFrame(f"a frame of {size:,} bytes is over the limit of {MAX_FRAME:,}")
    return int(size)


def unpack(body: bytes) -> dict[str, Any]:
    """Return the message in a body; raise ``BadFrame`` for anything but a JSON object."""
    try:
        message = DECODE(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFrame("no JSON") from error
    if not isinstance(message, dict):
        raise BadFrame("no JSON object")
    return message
