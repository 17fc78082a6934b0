"""Reader of a worker's frames in the supervisor. The worker is hostile: a wrong shape raises ``BadFrame``."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from services.sandbox.events import Display, Variable
from services.sandbox.wire import BadFrame

PLOTLY = "application/vnd.plotly.v1+json"
MEDIA_TYPES = frozenset({PLOTLY, "image/png", "text/html"})
PNG = b"\x89PNG\r\n\x1a\n"
NAME, TEXT, VARIABLES = 200, 64 * 1024, 200


@dataclass(frozen=True)
class Done:
    """End of a request, as the worker claims it."""

    result: str = ""
    traceback: str = ""
    error_name: str = ""
    error_value: str = ""
    variables: tuple[Variable, ...] = ()


def done(frame: dict[str, Any]) -> Done:
    """Return the claims in a frame of kind ``done``; raise ``BadFrame``."""
    variables = frame.get("variables", [])
    if not isinstance(variables, list):
        raise BadFrame("variables are no list")
    return Done(
        text(frame, "result"),
        text(frame, "traceback"),
        text(frame, "error_name", NAME),
        text(frame, "error_value"),
        tuple(variable(item) for item in variables[:VARIABLES]),
    )


def variable(item: object) -> Variable:
    """Return a variable; raise ``BadFrame`` for a wrong shape."""
    if not isinstance(item, dict):
        raise BadFrame("a variable is no object")
    return Variable(text(item, "name", NAME), text(item, "type", NAME), text(item, "shape", NAME))


def display(frame: dict[str, Any]) -> Display | None:
    """Return the display in a frame of kind ``display``, None when its content is not of its media type.

    Raise ``BadFrame`` for a wrong shape or a media type that is not allowed.
    """
    media_type = text(frame, "media_type")
    if media_type not in MEDIA_TYPES:
        raise BadFrame(f"media type {media_type[:NAME]!r} is not allowed")
    encoded = frame.get("data", "")
    if not isinstance(encoded, str):
        raise BadFrame("data are no text")
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Display(media_type, data) if is_valid(media_type, data) else None


def is_valid(media_type: str, data: bytes) -> bool:
    """Return whether the content can be what its media type says; nothing in it is run."""
    if media_type == "image/png":
        return data.startswith(PNG)
    try:
        content = data.decode("utf-8")
        return media_type != PLOTLY or isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def text(frame: dict[str, Any], field: str, limit: int = TEXT) -> str:
    """Return an encodable text field cut to ``limit`` characters, "" if absent; raise ``BadFrame`` for other types."""
    value = frame.get(field, "")
    if not isinstance(value, str):
        raise BadFrame(f"{field} is no text")
    # Lone surrogates pass JSON, but no transport.
    return value[:limit].encode("utf-8", "replace").decode("utf-8")
