"""Fields that a text file says about itself: a block of YAML between lines of three hyphens at its beginning."""

from __future__ import annotations

from typing import Any

import yaml

# A longer block is no list of fields but a text with lines of hyphens.
MAX_CHARS = 8_192
FENCE = "---"


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a text and what follows them; no fields and the whole text where it begins otherwise."""
    if not text.startswith(f"{FENCE}\n"):
        return {}, text
    block, found, rest = text[len(FENCE) + 1 : MAX_CHARS].partition(f"\n{FENCE}\n")
    if not found:
        return {}, text
    try:
        fields = yaml.safe_load(block)
    # A date that no calendar has is a ValueError.
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    # Two rules around a paragraph are Markdown, too.
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        return {}, text
    return fields, rest + text[MAX_CHARS:]
