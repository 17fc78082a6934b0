"""JSON from outside, decoded only when the objects that it makes fit into a declared number of bytes.

Three bytes of JSON can make an object of two hundred, so that a limit on bytes alone bounds little. Whoever decodes
foreign JSON therefore counts what makes objects before the first one is made. ::

    document = load_json(body, memory_bytes=64 << 20)
"""

from __future__ import annotations

import json
from typing import Any

# What CPython 3.11 to 3.13 take on 64 bits at most, together with the commas and colons inside: an object or a list of
# few members, and one more scalar or member's name with its place in a table that has just grown.
CONTAINER_BYTES, SCALAR_BYTES = 128, 80
# A single character beyond the basic plane makes each of a text take four bytes; the document is held as text, too.
TEXT_FACTOR = 4
# A few objects are there for any document.
LEAST_BYTES = 8_192


class JsonTooLarge(ValueError):
    """JSON that would take more memory than it may; nothing of it was decoded."""


def estimate_memory(data: bytes) -> int:
    """Return an upper bound of the bytes of memory that the objects in this JSON take while it is decoded."""
    containers = data.count(b"[") + data.count(b"{")
    scalars = data.count(b",") + data.count(b":") + 1
    is_wide = not data.isascii() or b"\\u" in data
    # The document as text, and the texts in it.
    text_bytes = 2 * len(data) * (TEXT_FACTOR if is_wide else 1)
    return LEAST_BYTES + containers * CONTAINER_BYTES + scalars * SCALAR_BYTES + text_bytes


def load_json(data: bytes, memory_bytes: int) -> Any:
    """Return the value of UTF-8 JSON; raise ``ValueError`` when it is none or nests too deep.

    Raise its kind ``JsonTooLarge`` when decoding may take more than ``memory_bytes``.
    """
    if estimate_memory(data) > memory_bytes:
        raise JsonTooLarge(f"its objects may take more than {memory_bytes:,} bytes of memory")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("its brackets are nested too deep") from error
