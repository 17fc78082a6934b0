"""List of sheets in the head of a tool's reply, within a number of characters."""

from __future__ import annotations

import json
from typing import Any

# What a reply lists must leave room in the window for several of them.
HEAD_CHARS = 8_000


def limit_columns(sheets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sheets with their columns, or without them once ``HEAD_CHARS`` characters are used up."""
    # Columns can be looked up in Python; titles and variables cannot.
    room, listed = HEAD_CHARS, []
    for sheet in sheets:
        room -= len(json.dumps(sheet, ensure_ascii=False))
        listed.append(sheet if room >= 0 else {**sheet, "columns": []})
    return listed
