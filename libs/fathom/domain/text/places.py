"""Places of passages as citations name them: "lease.pdf p. 2", of a page that was recognized with its confidence."""

from __future__ import annotations

import re

PAGE = re.compile(r" p\. \d+( \(OCR \d+ %\))?$")


def name_page(source: str, page: int, confidence: float = 0.0) -> str:
    """Return a file with its page, "lease.pdf p. 2 (OCR 97 %)"; the file alone where it has none.

    ``confidence`` is that of character recognition, 0 for a page with text of its own.
    """
    if not page:
        return source
    recognized = f" (OCR {confidence:.0%})".replace("%", " %") if confidence else ""
    return f"{source} p. {page}{recognized}"


def drop_page(place: str) -> str:
    """Return the file of a place."""
    return PAGE.sub("", place)
