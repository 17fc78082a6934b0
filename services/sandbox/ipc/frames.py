"""Frames between supervisor and worker, used by both: four bytes of length, then a JSON object.

The supervisor takes its peer as hostile.
"""

from __future__ import annotations

import json
import struct
from typing import Any

HEADER = struct.Struct(">I")
# A display of ``MAX_DISPLAY_BYTES`` in base64 with the JSON around it; bounds what a hostile worker makes us
# allocate.
MAX_FRAME = 12 * 1024 * 1024
# Bound once: in a worker a cell may replace what the module ``json`` holds.
ENCODE = json.JSONEncoder().encode
DECODE = json.JSONDecoder().decode


PLOTLY = "application/vnd.plotly.v1+json"
TABLE = "application/vnd.fathom.table+json"
MEDIA_TYPES = (PLOTLY, TABLE, "image/png", "text/html")
"""Media types of displays, richest first; the supervisor accepts no other."""
# Enough for a cell that draws every series once, little enough that a session's recordings stay in memory. The worker
# keeps to these limits, so that code gets a readable message; the supervisor enforces them on a worker that does not.
MAX_DISPLAYS, MAX_DISPLAY_BYTES = 20, 8 * 1024 * 1024


class BadFrame(ValueError):
    """Error of bytes that are no frame of this protocol."""


def pack(message: dict[str, Any]) -> bytes:
    """Return the message as one frame."""
    body = ENCODE(message).encode("ascii")
    return HEADER.pack(len(body)) + body


def read_length(header: bytes) -> int:
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
