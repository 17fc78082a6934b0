"""Check of the JSON that cells display: figures, tables and plain data, before anybody reads them.

Decoding takes many times the bytes of the text and cannot be interrupted, so that the process with the sessions of all
never does it: short ones are read here, longer ones in a decoder's child process.
"""

from __future__ import annotations

import json

from fathom.core.errors import InvalidField
from fathom.services.sandbox.ipc.frames import JSON, PLOTLY, TABLE

JSON_TYPES = (PLOTLY, TABLE, JSON)
# Read in less than a millisecond, which a call to a child takes as well.
SHORT_BYTES = 64 * 1024
# Opening brackets, those in texts too: each list costs many times the two bytes that it takes in JSON.
MAX_BRACKETS = 200_000
# Values of a figure: as many as its bytes can hold when they are numbers of eight characters.
MAX_VALUES = 1_000_000


def check_json(media_type: str, data: bytes) -> None:
    """Raise ``InvalidField("display")`` for what is no JSON of its media type, or costs its readers too much."""
    if data.count(b"[") + data.count(b"{") > MAX_BRACKETS or data.count(b",") > MAX_VALUES:
        raise InvalidField("display", f"has more than {MAX_BRACKETS:,} brackets or {MAX_VALUES:,} values")
    try:
        content = json.loads(data.decode("utf-8"))
    # RecursionError is what the parser raises for brackets nested a few thousand deep.
    except (ValueError, RecursionError) as error:
        raise InvalidField("display", f"is no {media_type}") from error
    if media_type != JSON and not isinstance(content, dict):
        raise InvalidField("display", f"is no {media_type}: no JSON object")
