"""Opaque parts of replies: what an endpoint sends beside text and calls, and wants back with the message.

They travel as JSON through record and request: ``{"origin": model, "message": {…}, "calls": [{…}, …]}``, where
``message`` and the calls hold the fields as they came, the calls in their order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

# A thought of 64,000 tokens, the longest that endpoints allow, has about 300 KB.
MAX_BYTES = 1 << 20
"""Largest opaque part of a message in bytes; a larger one is not kept."""


def write_opaque(origin: str, message: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON of a reply's opaque parts; "" when it has none, or more than ``MAX_BYTES``."""
    if not message and not any(calls):
        return ""
    parts: dict[str, Any] = {"origin": origin}
    if message:
        parts["message"] = dict(message)
    if any(calls):
        parts["calls"] = [dict(call) for call in calls]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return text if len(text.encode()) <= MAX_BYTES else ""


def read_opaque(text: str, origin: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the fields of the message and of its calls; nothing for parts of another model or of another form."""
    try:
        parts = json.loads(text) if text else None
    except (ValueError, RecursionError):
        parts = None
    # Thoughts and signatures mean something to the model that wrote them, and to no other.
    if not isinstance(parts, dict) or parts.get("origin") != origin:
        return {}, []
    message, calls = parts.get("message"), parts.get("calls")
    return (
        message if isinstance(message, dict) else {},
        [call if isinstance(call, dict) else {} for call in calls] if isinstance(calls, list) else [],
    )


def merge_field(known: Any, new: Any) -> Any:
    """Return a field of a streamed message after a further piece of it: text and lists go on, objects are merged."""
    if known is None:
        return new
    if isinstance(known, str) and isinstance(new, str):
        return known + new
    if isinstance(known, dict) and isinstance(new, dict):
        return {**known, **{name: merge_field(known.get(name), value) for name, value in new.items()}}
    if isinstance(known, list) and isinstance(new, list):
        return merge_items(known, new)
    return new


def merge_items(known: list[Any], new: list[Any]) -> list[Any]:
    """Return a list after further items: a piece of the last item, by type and index, goes on with its text."""
    items = list(known)
    for item in new:
        if items and is_continuation(items[-1], item):
            items[-1] = merge_item(items[-1], item)
        else:
            items.append(item)
    return items


def is_continuation(last: Any, item: Any) -> bool:
    """Return whether an item is a further piece of the last one."""
    if not isinstance(last, dict) or not isinstance(item, dict):
        return False
    same = all(last.get(name) == item.get(name) for name in ("type", "index"))
    # An item without index may be a whole of its own, unless it names the same id.
    return same and (item.get("index") is not None or (item.get("id") is not None and item["id"] == last.get("id")))


def merge_item(last: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with a further piece of its text; everything else of the piece replaces what was known."""
    merged = dict(last)
    for name, value in item.items():
        before = merged.get(name)
        if name in ("text", "summary") and isinstance(before, str) and isinstance(value, str):
            # Some endpoints repeat the text from its beginning in each piece.
            merged[name] = value if len(value) > len(before) and value.startswith(before) else before + value
        elif value is not None:
            merged[name] = value
    return merged
