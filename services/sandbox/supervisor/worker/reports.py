"""Reader of a worker's frames in the supervisor. The worker is hostile: a wrong shape raises ``BadFrame``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fathom.services.sandbox.ipc.frames import JSON, MAX_BRACKETS, MEDIA_TYPES, PLOTLY, PNG, TABLE, BadFrame
from fathom.services.sandbox.supervisor.events import Display, Variable

PNG_HEAD = b"\x89PNG\r\n\x1a\n"
# A screen of the largest size several times over: what takes a viewer's memory when it is drawn.
MAX_PIXELS = 50_000_000
# Twice the worker's own limits for texts, so that only a worker that ignores them is cut here.
NAME, TEXT, VARIABLES = 200, 64 * 1024, 200
# Values of a figure: as many as its bytes can hold when they are numbers of eight characters.
MAX_VALUES = 1_000_000


@dataclass(frozen=True)
class WorkerResult:
    """End of a request, as the worker claims it."""

    result: str = ""
    traceback: str = ""
    error_name: str = ""
    error_value: str = ""
    variables: tuple[Variable, ...] = ()


def parse_result(frame: dict[str, Any]) -> WorkerResult:
    """Return the claims in a frame of kind ``done``; raise ``BadFrame``."""
    variables = frame.get("variables", [])
    if not isinstance(variables, list):
        raise BadFrame("variables are not a list")
    return WorkerResult(
        read_text_field(frame, "result"),
        read_text_field(frame, "traceback"),
        read_text_field(frame, "error_name", NAME),
        read_text_field(frame, "error_value"),
        tuple(parse_variable(item) for item in variables[:VARIABLES]),
    )


def parse_variable(item: object) -> Variable:
    """Return a variable; raise ``BadFrame`` for a wrong shape."""
    if not isinstance(item, dict):
        raise BadFrame("a variable is not an object")
    return Variable(
        read_text_field(item, "name", NAME), read_text_field(item, "type", NAME), read_text_field(item, "shape", NAME)
    )


def parse_display(message: dict[str, Any], data: bytes) -> Display | None:
    """Return the display in a frame of kind ``display``, None when its content is not of its media type.

    Raise ``BadFrame`` for a wrong shape or a media type that is not allowed.
    """
    media_type = read_text_field(message, "media_type")
    if media_type not in MEDIA_TYPES:
        raise BadFrame(f"media type {media_type[:NAME]!r} is not allowed")
    return Display(media_type, data) if is_valid(media_type, data) else None


def is_valid(media_type: str, data: bytes) -> bool:
    """Return whether the content can be what its media type says; nothing in it is run."""
    if media_type == PNG:
        return data.startswith(PNG_HEAD) and measure_png(data) <= MAX_PIXELS
    try:
        content = data.decode("utf-8")
        if media_type not in (PLOTLY, TABLE, JSON):
            return True
        return is_moderate(data) and isinstance(json.loads(content), dict if media_type != JSON else object)
    # RecursionError is what the parser raises for brackets nested a few thousand deep.
    except (ValueError, RecursionError):
        return False


def measure_png(data: bytes) -> int:
    """Return the number of pixels that the head of a PNG announces."""
    # The first chunk, IHDR, begins after the signature: length, type, width, height (PNG specification, 11.2.2).
    if data[12:16] != b"IHDR":
        return MAX_PIXELS + 1
    return int.from_bytes(data[16:20]) * int.from_bytes(data[20:24])


def is_moderate(content: bytes) -> bool:
    """Return whether JSON takes a bounded multiple of its size in memory, here and wherever it is read later."""
    brackets = content.count(b"[") + content.count(b"{")
    return brackets <= MAX_BRACKETS and content.count(b",") <= MAX_VALUES


def read_text_field(frame: dict[str, Any], field: str, limit: int = TEXT) -> str:
    """Return an encodable text field cut to ``limit`` characters, "" if absent; raise ``BadFrame`` for other types."""
    value = frame.get(field, "")
    if not isinstance(value, str):
        raise BadFrame(f"{field} is not text")
    # Lone surrogates pass JSON, but no transport.
    return value[:limit].encode("utf-8", "replace").decode("utf-8")
