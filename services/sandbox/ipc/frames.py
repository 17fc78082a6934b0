"""Frames between supervisor and worker, used by both: two lengths, a JSON object, and the bytes of a display.

The supervisor takes its peer as hostile: what a frame may hold is bounded before it is decoded.
"""

from __future__ import annotations

import json
import struct
from typing import Any

# Bytes of the JSON and of the data behind it.
HEADER = struct.Struct(">II")
# The longest texts of an answer, each character written as twelve, and its variables.
MAX_JSON = 3 * 1024 * 1024
# Opening brackets, those in texts too: each list costs many times the two bytes that it takes in JSON.
MAX_BRACKETS = 200_000
# Bound once: in a worker a cell may replace what the module ``json`` holds.
ENCODE = json.JSONEncoder().encode
DECODE = json.JSONDecoder().decode


PLOTLY = "application/vnd.plotly.v1+json"
TABLE = "application/vnd.fathom.table+json"
PNG, SVG, HTML, JSON = "image/png", "image/svg+xml", "text/html", "application/json"
MEDIA_TYPES = (PLOTLY, TABLE, PNG, SVG, HTML, JSON)
"""Media types of displays, richest first; the supervisor accepts no other."""
# Enough for a cell that draws every series once, little enough that a session's recordings stay in memory. The worker
# keeps to these limits, so that code gets a readable message; the supervisor enforces them on a worker that does not.
MAX_DISPLAYS, MAX_DISPLAY_BYTES = 20, 8 * 1024 * 1024


class BadFrame(ValueError):
    """Error of bytes that are no frame of this protocol."""


def pack(message: dict[str, Any], data: bytes = b"") -> bytes:
    """Return message and data as one frame."""
    body = ENCODE(message).encode("ascii")
    return HEADER.pack(len(body), len(data)) + body + data


def read_lengths(header: bytes) -> tuple[int, int]:
    """Return the bytes of the JSON and of the data; raise ``BadFrame`` when one of them is over its limit."""
    size, data_size = HEADER.unpack(header)
    for what, found, limit in (("JSON", size, MAX_JSON), ("data", data_size, MAX_DISPLAY_BYTES)):
        if found > limit:
            raise BadFrame(f"a frame with {found:,} bytes of {what} is over the limit of {limit:,}")
    return size, data_size


def unpack(body: bytes) -> dict[str, Any]:
    """Return the message in the JSON of a frame; raise ``BadFrame`` for no JSON object, and for too many brackets."""
    if body.count(b"[") + body.count(b"{") > MAX_BRACKETS:
        raise BadFrame(f"more than {MAX_BRACKETS:,} brackets")
    try:
        message = DECODE(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFrame("no JSON") from error
    if not isinstance(message, dict):
        raise BadFrame("no JSON object")
    return message
