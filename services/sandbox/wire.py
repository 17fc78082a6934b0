"""Frames between supervisor and worker: four bytes of length, then a JSON object. The peer is taken as hostile."""

from __future__ import annotations

import json
import struct
from typing import Any

HEADER = struct.Struct(">I")
MAX_FRAME = 12 * 1024 * 1024


class BadFrame(ValueError):
    """The bytes are no frame of this protocol."""


def pack(message: dict[str, Any]) -> bytes:
    """One frame."""
    body = json.dumps(message).encode()
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
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"no JSON: {error}") from error
    if not isinstance(message, dict):
        raise BadFrame("no JSON object")
    return message


def text(message: dict[str, Any], field: str, limit: int) -> str:
    """A string field, cut to ``limit`` characters; "" when it is absent or of another type."""
    value = message.get(field, "")
    return value[:limit] if isinstance(value, str) else ""


def items(message: dict[str, Any], field: str, limit: int) -> list[dict[str, Any]]:
    """A list of objects, cut to ``limit`` items; whatever else is in it is dropped."""
    value = message.get(field, [])
    return [item for item in value[:limit] if isinstance(item, dict)] if isinstance(value, list) else []
