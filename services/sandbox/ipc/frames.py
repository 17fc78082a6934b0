"""Messages between supervisor and worker, used by both: requests in JSON, and frames of a worker in raw texts.

The supervisor takes its peer as hostile and shares one loop among all sessions. A frame therefore says in a short head
whose it is, what it is and how long; one that is too long, or belongs to no request, is refused before it is read, and
none needs a parser.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

# Bytes of a request's JSON.
REQUEST_HEADER = struct.Struct(">I")
# Nonce and kind of a frame, bytes of its texts, bytes of its display.
FRAME_HEADER = struct.Struct(">16sBII")
LENGTH = struct.Struct(">I")
# Of a frame that answers no request: the one with which a worker says that it is ready.
NO_NONCE = "00" * 16
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


# The longest texts of an answer at four bytes per character, and its variables with three texts each; the media type of
# a display.
MAX_RESULT_BYTES, MAX_HEAD_BYTES = 1024 * 1024, 256
MAX_TEXTS = 4 + 3 * 200


class FrameKind(IntEnum):
    """Content of a worker's frame: a display of the running cell, or the result that ends a request."""

    RESULT = 1
    DISPLAY = 2


LIMITS = {FrameKind.RESULT: (MAX_RESULT_BYTES, 0), FrameKind.DISPLAY: (MAX_HEAD_BYTES, MAX_DISPLAY_BYTES)}


class BadFrame(ValueError):
    """Error of bytes that are no frame of this protocol."""


class FrameHead(NamedTuple):
    """Kind of a frame, and the bytes of its texts and of its display."""

    kind: FrameKind
    text_bytes: int
    data_bytes: int


def pack_request(message: dict[str, Any]) -> bytes:
    """Return a request of the supervisor's as bytes."""
    # The JSON encoder escapes everything beyond ASCII, so that no character can fail here.
    body = ENCODE(message).encode("ascii")
    return REQUEST_HEADER.pack(len(body)) + body


def unpack_request(body: bytes) -> dict[str, Any]:
    """Return the request in the bytes behind its header; a worker reads it and trusts its supervisor."""
    message: dict[str, Any] = DECODE(body.decode("ascii"))
    return message


def pack_frame(kind: FrameKind, nonce: str, texts: Sequence[str], data: bytes = b"") -> bytes:
    """Return a worker's frame; ``nonce`` is that of the request which it answers."""
    # A cell may make half of a surrogate pair, for which UTF-8 has no bytes, and the supervisor reads strictly.
    encoded = [text.encode("utf-8", "replace") for text in texts]
    body = b"".join(LENGTH.pack(len(text)) + text for text in encoded)
    return FRAME_HEADER.pack(bytes.fromhex(nonce), kind, len(body), len(data)) + body + data


def read_head(header: bytes, nonce: str) -> FrameHead:
    """Return the head of a frame; raise ``BadFrame`` for one of another request, of no kind, or over a limit."""
    found, number, text_bytes, data_bytes = FRAME_HEADER.unpack(header)
    # What ran before knows another nonce: its answer must not be taken for this one's, nor may it cost us more.
    if found.hex() != nonce:
        raise BadFrame("a frame that belongs to no request")
    if number not in LIMITS:
        raise BadFrame("a frame of an unknown kind")
    kind = FrameKind(number)
    for what, size, limit in zip(("texts", "data"), (text_bytes, data_bytes), LIMITS[kind], strict=True):
        if size > limit:
            raise BadFrame(f"a {kind.name.lower()} with {size:,} bytes of {what} is over the limit of {limit:,}")
    return FrameHead(kind, text_bytes, data_bytes)


def split_texts(body: bytes) -> list[str]:
    """Return the texts of a frame; raise ``BadFrame`` when they are more than ``MAX_TEXTS`` or no texts."""
    texts: list[str] = []
    place = 0
    try:
        while place < len(body):
            (size,) = LENGTH.unpack_from(body, place)
            place += LENGTH.size + size
            if place > len(body) or len(texts) == MAX_TEXTS:
                raise BadFrame("texts that are cut off, or too many")
            # Strict: replacing each wrong byte takes a thousand times as long as reading right ones.
            texts.append(body[place - size : place].decode("utf-8"))
    except (struct.error, UnicodeDecodeError) as error:
        raise BadFrame("no texts") from error
    return texts
